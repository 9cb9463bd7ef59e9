// Small comforts; every page works without them.
"use strict";
document.addEventListener("change", (e) => {
  if (e.target.matches("select[data-submit]")) e.target.form.submit();
});
document.addEventListener("submit", (e) => {
  const text = e.submitter && e.submitter.dataset.confirm;
  if (text && !window.confirm(text)) e.preventDefault();
});
// What a person opened stays open when the page is fetched again.
let opened = new Set();
document.addEventListener("htmx:beforeSwap", () => {
  opened = new Set();
  document.querySelectorAll("details[open]").forEach((d) => opened.add(place(d)));
});
document.addEventListener("htmx:afterSwap", () => {
  document.querySelectorAll("details").forEach((d) => { if (opened.has(place(d))) d.open = true; });
});
function place(d) {
  return d.id || [...document.querySelectorAll("details")].indexOf(d) + d.querySelector("summary").textContent;
}
// Say when the page is no longer live.
const say = (text) => { const s = document.getElementById("live-state"); if (s) s.textContent = text; };
document.addEventListener("htmx:sseOpen", () => say(""));
document.addEventListener("htmx:sseError", () => say("Not connected to the server; trying again …"));
