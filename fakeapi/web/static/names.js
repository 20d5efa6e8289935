// The ids of pages are long and differ at their ends.
export const pageName = id => "Page " + (id.length > 8 ? "…" + id.slice(-4) : id);

export const count = new Intl.NumberFormat("en").format;

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// clock returns the time of day of a Date, of milliseconds or of a time in JSON.
export const clock = at => clockFormat.format(new Date(at));
