// Turns keys into ways through the slides of a lecture. A presenter's remote control sends PageDown and PageUp.

const WAYS = new Map([
  ["ArrowRight", "next"], ["ArrowDown", "next"], ["PageDown", "next"], [" ", "next"],
  ["ArrowLeft", "back"], ["ArrowUp", "back"], ["PageUp", "back"],
  ["Home", "first"], ["End", "last"], ["Escape", "leave"],
]);
const BUSY = "input, textarea, select, [contenteditable=true], [role=slider], [role=radio]";
const listening = new WeakMap();

/** The element that has the focus, inside components too. */
function focused() {
  let found = document.activeElement;
  while (found?.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  return found;
}

export default function ({ parentElement, setTriggerValue }) {
  window.removeEventListener("keydown", listening.get(parentElement), true);
  const onKey = (event) => {
    const way = WAYS.get(event.key);
    if (!way || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (document.querySelector("[data-testid=stDialog]")) return; // the keys are its own
    if (focused()?.closest(BUSY) || (event.key === " " && focused()?.closest("button, a, summary"))) return;
    event.preventDefault();
    event.stopPropagation();
    setTriggerValue("pressed", way);
  };
  listening.set(parentElement, onKey);
  window.addEventListener("keydown", onKey, true);
  const place = parentElement instanceof ShadowRoot ? parentElement.host : parentElement;
  place.setAttribute("data-keys", "heard"); // from here on no key is lost
  return () => {
    window.removeEventListener("keydown", onKey, true);
    place.removeAttribute("data-keys");
  };
}
