// Whether an element can be seen, told whenever that changes.

// Calls tell(seen) once at first and then at each change; `margin` (CSS) is how near to the screen counts as on it. Several
// changes may come at once where the browser was busy: the last one is how things are. Returns what ends it.
export function watchSight(element, margin, tell) {
  const observer = new IntersectionObserver((entries) => tell(entries.at(-1).isIntersecting), { rootMargin: margin });
  observer.observe(element);
  return () => observer.disconnect();
}
