// The limits as they were. The platform names those in force, and the page keeps
// them for as long as the chart goes back.
const past = new Map(); // page id → the limits in the order of their first second

// noteLimits remembers the limit of each page in a second.
export function noteLimits(pages, second, seconds) {
  for (const { page, limit } of pages) {
    const list = past.get(page) ?? [];
    past.set(page, list);
    if (list.at(-1)?.limit !== limit) list.push({ from: second, limit });
    while (list.length > 1 && list[1].from <= second - seconds) list.shift();
  }
}

// limitsOf returns the limit in each of the seconds up to and with the last one.
// Before the first known one it is taken for the same.
export function limitsOf(page, limit, last, seconds) {
  const list = past.get(page) ?? [{ from: last, limit }];
  return Array.from({ length: seconds }, (_, i) => (list.findLast(l => l.from <= last - seconds + 1 + i) ?? list[0]).limit);
}

export const forgetLimits = () => past.clear();
