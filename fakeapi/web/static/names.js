// The ids of pages are long and differ at their ends.
export const pageName = id => "Page " + (id.length > 8 ? "…" + id.slice(-4) : id);
