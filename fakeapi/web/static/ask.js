// ask makes a request of the platform. An error is shown as a notice.
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
    why = "The platform does not answer.";
  }
  notify(why.charAt(0).toUpperCase() + why.slice(1));
  return false;
}
