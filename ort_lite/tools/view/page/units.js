// Numbers as people read them: three digits and a unit, of powers of ten.

const BYTES = ["B", "kB", "MB", "GB", "TB"];
const TIMES = ["µs", "ms", "s"];

function scaled(number, units) {
  let left = Math.abs(number);
  let unit = 0;
  while (left >= 999.5 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  const text = left >= 99.95 || Number.isInteger(left) ? left.toFixed(0) : left.toPrecision(left < 1 ? 2 : 3);
  return `${number < 0 ? "-" : ""}${text} ${units[unit]}`;
}

/** "1.23 MB"; an expression in free dimensions stays as it is, null is "unknown". */
export function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  return typeof bytes === "number" ? scaled(bytes, BYTES) : `${bytes} B`;
}

/** "1.23 ms" of microseconds. */
export function timeText(microseconds) {
  return scaled(microseconds, TIMES);
}

/** "1 node", "1,234 nodes". */
export function countText(count, noun, several = `${noun}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? noun : several}`;
}

/** "12.3 %" of a part of 1. */
export function shareText(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 2 : 1)} %`;
}
