// Browsers load no modules for a page that is a file, so nothing else here would run.
if (location.protocol === "file:") {
  const message = document.getElementById("message");
  message.className = "bad";
  message.textContent = "Opened as a file, the lab cannot start: browsers want it from a web server. "
    + "In the folder of the site, `python -m http.server` is one, and prints its address. "
    + "Or run `causalcast lab`.";
}
