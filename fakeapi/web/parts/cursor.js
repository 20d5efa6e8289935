// The cursor of a chart: a second that the reader chose with the pointer or the
// arrow keys.
import { plotLeft, plotRight, slots } from "./canvas.js";

const keys = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

// newCursor calls move with the slot that was chosen, or null. tell returns what
// the chart shows there, as lines.
export function newCursor(canvas, tip, tell, move) {
  let back = 0; // where the keys go on, in seconds before the newest

  const last = () => Math.max(0, slots - 1 - back);
  const tellRange = () => {
    canvas.setAttribute("aria-valuemin", "1");
    canvas.setAttribute("aria-valuemax", String(slots));
    canvas.setAttribute("aria-valuenow", String(last() + 1));
  };
  tellRange();

  // say has the values read out; it follows the keys, not the time.
  function say() {
    tellRange();
    canvas.setAttribute("aria-valuetext", tell(last()).join(", ") || "nothing yet");
  }
  function go(slot) {
    back = slots - 1 - Math.max(0, Math.min(slots - 1, slot));
    move(last());
  }
  function point(e) {
    const r = canvas.getBoundingClientRect(), width = r.width - plotLeft - plotRight;
    go(Math.floor((e.clientX - r.left - plotLeft) / width * slots));
  }
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => move(null));
  canvas.addEventListener("focus", () => {
    if (!canvas.matches(":focus-visible")) return;
    go(last());
    say();
  });
  canvas.addEventListener("blur", () => move(null));
  canvas.addEventListener("keydown", e => {
    if (e.key === "Escape") move(null);
    if (!(e.key in keys)) return;
    e.preventDefault();
    go(last() + keys[e.key]);
    say();
  });

  return {
    // show puts the values beside the slot.
    show(slot) {
      const lines = slot === null ? [] : tell(slot);
      tip.hidden = lines.length === 0;
      if (tip.hidden) return;
      tip.textContent = lines.join("\n");
      const width = canvas.clientWidth, x = plotLeft + (slot + 0.5) / slots * (width - plotLeft - plotRight);
      const left = x + 12 + tip.offsetWidth > width ? x - 12 - tip.offsetWidth : x + 12;
      tip.style.transform = `translateX(${Math.max(0, left)}px)`;
    },
  };
}
