// ask makes a request and reports whether it was granted. If not, the reason is
// shown.
import { notify } from "./notice.js";

export async function ask(method, path, body) {
  let why = "";
  try {
    const r = await fetch(path, {
      method,
      headers: { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (r.ok) return true;
    why = (await r.json()).error || "answer " + r.status;
  } catch {
    why = "the server does not answer";
  }
  notify(why.charAt(0).toUpperCase() + why.slice(1) + ".");
  return false;
}
