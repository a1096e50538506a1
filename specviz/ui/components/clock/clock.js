// Minutes and seconds since a question was asked. Not announced: it would talk into every answer.

const ticking = new WeakMap();

function text(seconds, expected) {
  const of = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;
  return `${of(seconds)} of about ${of(expected)}`;
}

export default function ({ data, parentElement }) {
  clearInterval(ticking.get(parentElement));
  const since = performance.now() - 1000 * data.seconds;
  const shown = document.createElement("p");
  shown.setAttribute("role", "timer");
  shown.style.cssText = "margin:0;font-size:1.4em;font-variant-numeric:tabular-nums";
  parentElement.replaceChildren(shown);
  const tick = () => {
    shown.textContent = text((performance.now() - since) / 1000, data.expected);
  };
  tick();
  const timer = setInterval(tick, 1000);
  ticking.set(parentElement, timer);
  return () => clearInterval(timer);
}
