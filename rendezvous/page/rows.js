// A list on the screen that follows a list of data: rows keep their element as long as their key is there, so that focus,
// selection and scroll position survive a refresh.

export class Rows {
  // key(item) -> string; create(item) -> {element, update(item)}
  constructor(container, key, create) {
    this.container = container;
    this.key = key;
    this.create = create;
    this.shown = new Map();
  }

  update(items) {
    const keys = new Set(items.map(this.key));
    for (const [key, row] of this.shown) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.shown.delete(key);
    }
    let next = this.container.firstElementChild;
    for (const item of items) {
      const key = this.key(item);
      let row = this.shown.get(key);
      if (!row) {
        row = this.create(item);
        this.shown.set(key, row);
      }
      row.update(item);
      if (row.element === next) next = next.nextElementSibling;
      else this.container.insertBefore(row.element, next);
    }
  }
}
