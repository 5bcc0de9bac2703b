// Python in the page: loads Pyodide and the package from beside this file, then answers questions.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const lab = (async () => {
  const [pyodide, archive] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href }),
    fetch(new URL("causalcast.zip", import.meta.url)).then((answer) => answer.arrayBuffer()),
  ]);
  pyodide.unpackArchive(archive, "zip", { extractDir: "/lab" });
  return pyodide.runPython(`
import sys
sys.path.insert(0, "/lab")
from causalcast.lab.engine import Lab
Lab()`);
})();

self.onmessage = async ({ data }) => {
  let text;
  try {
    text = (await lab).ask(data.text);
  } catch (error) {
    text = JSON.stringify({ error: `the engine failed: ${error.message ?? error}` });
  }
  self.postMessage({ id: data.id, text });
};
