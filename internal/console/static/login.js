// The login. The form is sent by a script, because the page's policy lets no form go
// anywhere.
import { el } from "./dom.js";

const button = el("login").querySelector("button");

el("login").addEventListener("submit", async e => {
  e.preventDefault();
  button.disabled = true;
  let why = "";
  try {
    const r = await fetch("login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ password: el("password").value }),
    });
    if (r.ok) return location.reload();
    why = (await r.json()).error;
  } catch {
    why = "the server does not answer";
  }
  button.disabled = false;
  el("why").hidden = false;
  el("why").textContent = why.charAt(0).toUpperCase() + why.slice(1) + ".";
  el("password").select();
});
