// The built-in pictures that a phone can send.
import { make } from "./dom.js";

const words = { sun: "a sun over the sea", mountain: "two mountains", cat: "a cat", cake: "a birthday cake", tree: "a tree", rocket: "a rocket" };

// picture returns the image of a name.
export function picture(name) {
  const img = document.createElement("img");
  img.src = "pictures/" + encodeURIComponent(name) + ".svg";
  img.alt = "Picture: " + (words[name] ?? name);
  return img;
}

// newPicker fills box with the pictures, which the button more opens. send is
// called with the name of the chosen one. It returns a function that closes it.
export function newPicker(box, more, send) {
  const open = yes => {
    box.hidden = !yes;
    more.setAttribute("aria-expanded", String(yes));
  };
  more.addEventListener("click", () => {
    open(box.hidden);
    if (!box.hidden) box.querySelector("button").focus();
  });
  box.addEventListener("keydown", e => {
    if (e.key !== "Escape") return;
    e.stopPropagation(); // the drawer stays open
    open(false);
    more.focus();
  });
  for (const name of Object.keys(words)) {
    const button = make("button"), img = picture(name);
    button.type = "button";
    button.dataset.picture = name;
    button.setAttribute("aria-label", "Send " + words[name]);
    img.alt = "";
    img.loading = "lazy";
    button.append(img);
    button.addEventListener("click", () => {
      open(false);
      send(name);
    });
    box.append(button);
  }
  return () => open(false);
}
