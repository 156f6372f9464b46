// Keys press the button or link that names them: <button data-keys="y a">. What a key means is shown by the
// page that answers the request before it: keys wait for that page, and a link takes the rest with this one,
// unless Escape keeps it.
let sending = 0, leaving = false;
const waiting = [];
function press(key) {
  const found = document.querySelector(`[data-keys~="${CSS.escape(key)}"]:not(:disabled)`);
  if (!found || found.closest("fieldset:disabled")) return false;
  if (found.matches("a")) leaving = true;
  found.click();
  return true;
}
addEventListener("pageshow", event => { if (event.persisted) { sending = 0; leaving = false; waiting.length = 0; } });
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  if (leaving && event.key === "Escape") { leaving = false; waiting.length = 0; }
  else if (sending || leaving) { event.preventDefault(); waiting.push(event.key); }
  else if (press(event.key)) event.preventDefault();
});
document.addEventListener("htmx:beforeSend", event => {
  if (event.detail.requestConfig.verb !== "post") return;
  sending++;
  event.detail.xhr.addEventListener("loadend", () => {
    sending--;
    while (!sending && !leaving && waiting.length) press(waiting.shift());
  });
});
// A message belongs to what was done last; reading along in the background says nothing about it.
document.addEventListener("htmx:beforeRequest", event => {
  if (event.detail.requestConfig.verb === "post") document.getElementById("said").textContent = "";
});
document.addEventListener("htmx:sendError", () => {
  const said = document.createElement("p");
  said.textContent = "ivqa view does not answer: it was ended, or the connection is lost.";
  document.getElementById("said").replaceChildren(said);
});
// A picture is sent as soon as it is dropped or chosen.
const form = document.querySelector("[data-submit]");
if (form) {
  const drop = form.querySelector(".drop"), input = form.querySelector("input[type=file]");
  form.querySelector("[data-shown-without-script]").hidden = true;
  input.addEventListener("change", () => { if (input.files.length) form.requestSubmit(); });
  drop.addEventListener("dragover", event => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", event => {
    event.preventDefault(); drop.classList.remove("over");
    if (event.dataTransfer.files.length) { input.files = event.dataTransfer.files; form.requestSubmit(); }
  });
}
