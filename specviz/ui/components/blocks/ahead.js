// Keeps what belongs to places of a run before anybody asks for it. blocks.js draws it; it is shared through
// the window because the two are separate modules.

export default function ({ data }) {
  const known = (globalThis.specvizAhead ??= { run: "", places: {} });
  if (known.run !== data.run) Object.assign(known, { run: data.run, places: {} });
  Object.assign(known.places, JSON.parse(data.places));
}
