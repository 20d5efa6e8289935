// What all charts have in common: colours, sizes and scales.
export let slots = 120; // seconds that are drawn

// setSlots sets how many seconds are drawn: the least of these that holds a history.
export function setSlots(seconds) {
  slots = [30, 60, 120].find(n => n >= seconds) ?? 120;
}

// ago returns seconds in words.
const ago = s => (s < 60 ? s + " s" : s / 60 + " min") + " ago";

let colors = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = null; });

// palette returns the colours of the style sheet by their names.
export function palette() {
  if (colors) return colors;
  const style = getComputedStyle(document.documentElement);
  colors = {};
  for (const name of ["ink", "soft", "line", "panel", "accent", "green", "amber", "red", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"]) {
    colors[name] = style.getPropertyValue("--" + name).trim();
  }
  return colors;
}

// fit makes the canvas as sharp as the screen, and returns its context and size.
export function fit(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

// roundUp returns the next number upwards that begins with 1, 2, 2.5 or 5.
export function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  for (const m of [1, 2, 2.5, 5]) if (n <= m * power) return m * power;
  return 10 * power;
}

export const plotLeft = 72, plotRight = 8;

// plot prepares a chart over the last seconds: the grid, its labels and the
// light behind the second under the pointer. It returns the scales.
export function plot(canvas, { top, most, label, slot }) {
  const { c, width, height } = fit(canvas), color = palette(), bottom = 24;
  const lines = height < 100 ? 2 : 4; // labels need their height
  const tick = roundUp(most / lines), ceiling = Math.max(most, tick * (lines - 1));
  const step = (width - plotLeft - plotRight) / slots;
  const x = i => plotLeft + i * step, y = v => top + (1 - v / ceiling) * (height - top - bottom);
  const style = getComputedStyle(canvas);
  c.font = Math.round(0.87 * parseFloat(style.fontSize)) + "px " + style.fontFamily; // 13 px of 15
  if (slot !== null) {
    c.fillStyle = color.line;
    c.fillRect(x(slot), top, Math.max(step, 2), y(0) - top);
  }
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (let v = 0; v <= ceiling; v += tick) {
    c.fillStyle = color.line;
    c.fillRect(plotLeft, Math.round(y(v)), width - plotLeft - plotRight, 1);
    c.fillStyle = color.soft;
    c.fillText(label(v), plotLeft - 8, y(v));
  }
  c.textBaseline = "alphabetic";
  for (const [i, text, align] of [[0, ago(slots), "left"], [slots / 2, ago(slots / 2), "center"], [slots, "now", "right"]]) {
    c.textAlign = align;
    c.fillText(text, x(i), height - 4);
  }
  return { c, color, x, y, step, top, width };
}

// at returns where in a history of so many seconds the slot is, -1 for nowhere.
export const at = (slot, seconds) => Math.max(-1, slot - slots + seconds);

// slotOf returns the place of a moment, not always a whole one.
export const slotOf = (time, end) => slots - (end + 1 - new Date(time) / 1000);
