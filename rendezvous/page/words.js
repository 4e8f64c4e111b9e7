// Numbers, times and sizes in the words people read; "–" for what is not known.

export const UNKNOWN = "–";

const known = (value) => typeof value === "number" && Number.isFinite(value);

export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US") : UNKNOWN;
}

// A loss, a norm: four digits that matter, and no jumping width between 2.31 and 2.3.
export function measure(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return value.toFixed(size < 10 ? 4 : size < 100 ? 3 : size < 1000 ? 2 : 1);
}

// 950, 18.4k, 1.25M: for speeds and axes.
export function compact(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= unit) return (value / unit).toFixed(size >= 100 * unit ? 0 : size >= 10 * unit ? 1 : 2) + letter;
  }
  return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

// The same without zeros at the end, for the numbers along an axis.
export const axisNumber = (value) => compact(value).replace(/\.0+(?=\D|$)|(\.\d*[1-9])0+(?=\D|$)/, "$1");

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : 1)} ${units[unit]}`;
}

// Of a device's memory, which is made in powers of two.
export function gibibytes(value) {
  return known(value) && value > 0 ? `${(value / 2 ** 30).toFixed(value < 100 * 2 ** 30 ? 1 : 0)} GiB` : UNKNOWN;
}

// 42 ms, 0.42 s, 12 s, 3m 20s, 5h 02m, 2d 04h: two units at most.
export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds !== 0 && seconds < 0.1) return `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d ${two(Math.floor((whole % 86400) / 3600))}h`;
}

// One unit is enough for what was.
export function age(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 5) return "just now";
  for (const [unit, letter] of [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
  ]) {
    if (seconds >= 2 * unit) return `${Math.floor(seconds / unit)}${letter} ago`;
  }
  return `${Math.floor(seconds)}s ago`;
}

export function percent(part, whole) {
  if (!known(part) || !known(whole) || whole <= 0) return UNKNOWN;
  const value = (100 * part) / whole;
  // 100 % is said when it is done, not when it is nearly so.
  return `${part < whole ? Math.min(99.9, value).toFixed(value < 10 || value > 99 ? 1 : 0) : 100}%`;
}

// 0.42 is "42%".
export const share = (value) => (known(value) ? `${Math.round(100 * value)}%` : UNKNOWN);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

const clockForm = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

// 21:04:33 today, "Tue 17 Nov 21:04" on other days, in the reader's own time zone.
export function clock(time, now = new Date()) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  if (date.toDateString() === now.toDateString()) return date.toLocaleTimeString("en-GB", clockForm);
  const day = date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" });
  return `${day} ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })}`;
}

export function fullTime(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" });
}

export function secondsSince(time, now = Date.now()) {
  const then = Date.parse(time);
  return Number.isNaN(then) ? null : Math.max(0, (now - then) / 1000);
}

// The service's words for numbers that JSON does not have ("nan", "inf") become a gap in a curve.
export const finite = (value) => (known(value) ? value : null);
