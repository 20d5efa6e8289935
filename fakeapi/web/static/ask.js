// ask makes a request of the platform. An error is shown at the bottom.
const error = document.getElementById("error");
let timer = 0;

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
  error.textContent = why.charAt(0).toUpperCase() + why.slice(1);
  error.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { error.hidden = true; }, 6000);
  return false;
}
