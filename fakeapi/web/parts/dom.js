// Helpers that touch the document only where something is different.
export const el = id => document.getElementById(id);

export const fromTemplate = id => el(id).content.firstElementChild.cloneNode(true);

export function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function setClass(e, className) {
  if (e.className !== className) e.className = className;
}

// newList keeps one node in box for each item. A node stays as long as its key
// is among the items, with its focus and what is selected in it. build makes a
// node's parts, of which root is the node; show brings them up to date.
export function newList(box, build, show) {
  const parts = new Map();
  const update = (items, keyOf) => {
    const keys = new Set(items.map(keyOf));
    for (const [key, p] of parts) {
      if (keys.has(key)) continue;
      p.root.remove();
      parts.delete(key);
    }
    items.forEach((item, i) => {
      const key = keyOf(item);
      if (!parts.has(key)) parts.set(key, build(item));
      const p = parts.get(key);
      if (box.children[i] !== p.root) box.insertBefore(p.root, box.children[i] ?? null);
      show(p, item);
    });
  };
  return { update, get: key => parts.get(key), each: f => parts.forEach(p => f(p)) };
}
