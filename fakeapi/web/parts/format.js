// Numbers, times and pages in words.
export const count = new Intl.NumberFormat("en").format;

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// clock returns the time of day of a Date, of milliseconds or of a time in JSON.
export const clock = at => clockFormat.format(new Date(at));

// duration returns seconds in the unit that suits them.
export function duration(s) {
  if (s < 0.9995) return Math.round(s * 1000) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 119.5) return Math.round(s) + " s";
  return Math.round(s / 60) + " min";
}

// pageName returns the end of a page's id, in which ids differ.
export const pageName = id => "Page " + (id.length > 8 ? "…" + id.slice(-4) : id);

export const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many);
