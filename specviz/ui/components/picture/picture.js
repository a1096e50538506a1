// Draws an SVG that our own Python made. Streamlit's st.html removes SVG, and an <img> would not take the
// page's colour. Where there is too little room for its words to be read, it scrolls instead of shrinking.

const READABLE = "34rem";

export default function ({ data, parentElement }) {
  const made = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
  if (data.large) made.style.maxWidth = "none";
  made.style.minWidth = READABLE;
  const room = document.createElement("div");
  room.style.overflowX = "auto";
  room.append(document.importNode(made, true));
  parentElement.replaceChildren(room);
  // What scrolls must be reached by the keyboard, what does not need not.
  const watch = new ResizeObserver(() => {
    if (room.scrollWidth > room.clientWidth + 1) room.tabIndex = 0;
    else room.removeAttribute("tabindex");
  });
  watch.observe(room);
  return () => watch.disconnect();
}
