// Filters the findings that are already on the page. #q=part-0001&severity=critical presets it and can be passed on.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const made = byId("old").dataset.made;
  const days = Math.floor((Date.now() - Date.parse(made)) / 86400000);
  if (days >= 1) byId("old").textContent = ` (${days} day${days === 1 ? "" : "s"} ago)`;

  // "in 3 d 4 h" would be wrong on a page that is opened two days later.
  function span(seconds) {
    const days = Math.floor(seconds / 86400), hours = Math.floor(seconds % 86400 / 3600);
    if (days) return `${days.toLocaleString("en-US")} d${days < 10 && hours ? ` ${hours} h` : ""}`;
    if (seconds >= 3600) return `${hours} h`;
    return seconds >= 60 ? `${Math.floor(seconds / 60)} min` : `${seconds} s`;
  }
  if (Math.abs(Date.now() - Date.parse(made)) >= 60000) {
    for (const time of document.querySelectorAll("time.rel")) {
      const seconds = Math.round((Date.parse(time.dateTime) - Date.now()) / 1000);
      const has = (name) => time.classList.contains(name);
      const text = seconds > 0 ? `in ${span(seconds)}` : span(-seconds) + (has("bare") ? "" : " ago");
      const left = seconds > 0 ? `for ${span(seconds)}` : `expired ${text}`;
      time.textContent = has("until") ? left : text;
    }
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { return false; }
  }
  for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    const code = button.nextElementSibling;
    let done = await copy(code.textContent);
    if (!done) { // no clipboard here: select the text, so that the reader can copy it by hand
      getSelection().selectAllChildren(code);
      try { done = document.execCommand("copy"); } catch { /* it is selected anyway */ }
    }
    button.textContent = done ? "copied" : "selected";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });

  const form = byId("filter");
  if (!form) return;
  const rows = Array.from(byId("list").children);
  const texts = new Map();
  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  const choices = ["severity", "kind", "table"];
  let written = null;

  function apply() {
    const words = byId("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = choices.map((name) => [name, byId(name).value]).filter(([, value]) => value);
    let shown = 0;
    for (const row of rows) {
      const fits = chosen.every(([name, value]) => row.dataset[name] === value)
        && (words.length === 0 || words.every((word) => textOf(row).includes(word)));
      if (row.hidden === fits) row.hidden = !fits;
      if (fits) shown += 1;
    }
    const number = (value) => value.toLocaleString("en-US");
    byId("shown").value = `${number(shown)} of ${number(rows.length)}`;
    byId("none").hidden = shown !== 0;
  }

  function writeHash() {
    const params = new URLSearchParams();
    for (const name of ["q", ...choices]) if (byId(name).value) params.set(name, byId(name).value);
    written = `#${params}`;
    try { history.replaceState(null, "", params.size ? written : "#findings"); } catch { /* some viewers forbid it */ }
  }

  function readHash() {
    if (!location.hash.includes("=") || location.hash === written) return false;
    const params = new URLSearchParams(location.hash.slice(1));
    byId("q").value = params.get("q") ?? "";
    for (const name of choices) {
      const value = params.get(name) ?? "";
      const offered = Array.from(byId(name).options).some((option) => option.value === value);
      if (!offered) byId(name).add(new Option(value)); // matches nothing, rather than silently everything
      byId(name).value = value;
    }
    apply();
    byId("findings").scrollIntoView();
    return true;
  }

  let due = 0;
  const later = () => { clearTimeout(due); due = setTimeout(() => { apply(); writeHash(); }, 60); };
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { apply(); writeHash(); }));
  byId("unfold").addEventListener("click", (event) => {
    const open = event.currentTarget.getAttribute("aria-pressed") !== "true";
    event.currentTarget.setAttribute("aria-pressed", String(open));
    for (const row of rows) if (!row.hidden) row.querySelector("details").open = open;
  });
  window.addEventListener("hashchange", readHash);
  form.hidden = false;
  readHash();
})();
