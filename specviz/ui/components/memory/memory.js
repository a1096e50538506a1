// Keeps small facts (lessons done, when a card is due) in this browser's localStorage. Nothing else reads or
// writes them; without storage (private windows) the session still works, it only forgets.

const KEY = "specviz.learning";
const sent = new WeakSet(); // places that have told the server what is stored

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

export default function ({ data, parentElement, setStateValue }) {
  const changes = data.changes ?? {};
  if (Object.keys(changes).length) {
    try {
      localStorage.setItem(KEY, JSON.stringify({ ...read(), ...changes }));
    } catch {
      // full or forbidden
    }
  }
  if (!sent.has(parentElement)) {
    sent.add(parentElement);
    setStateValue("stored", read());
  }
}
