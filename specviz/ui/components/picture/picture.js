// Draws an SVG that our own Python made. Streamlit's st.html removes SVG, and an <img> would not take the
// page's colour.

export default function ({ data, parentElement }) {
  const made = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
  if (data.large) made.style.maxWidth = "none";
  parentElement.replaceChildren(document.importNode(made, true));
}
