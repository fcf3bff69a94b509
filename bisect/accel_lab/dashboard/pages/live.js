// Shows a bisection's lines as they come. All that is written goes in as text, never as markup.
"use strict";
(() => {
  const top = document.getElementById("live");
  if (!top || !top.dataset.events) return;
  const at = (id) => document.getElementById(id);
  const marks = { waiting: "na", running: "skip", stopping: "different", over: "good" };
  const cell = (row, words, name) => {
    const made = row.insertCell();
    if (name) made.className = name;
    made.textContent = words;
    return made;
  };
  const tag = (place, mark, words) => {
    const made = document.createElement("span");
    made.className = "tag " + mark;
    made.textContent = words;
    place.replaceChildren(made);
  };
  let last = Number(top.dataset.after);
  const source = new EventSource(top.dataset.events + "?after=" + last);
  source.addEventListener("line", (event) => {
    const line = JSON.parse(event.data);
    if (line.number <= last) return;
    last = line.number;
    const row = at("lines").insertRow();
    row.className = line.kind;
    cell(row, line.count, line.count ? "keep number" : "");
    const text = cell(row, line.text);
    if (line.count) {
      cell(row, line.took, "keep number");
      tag(cell(row, ""), line.kind, line.result);
    } else {
      text.colSpan = 3;
    }
    at("none").hidden = true;
  });
  source.addEventListener("now", (event) => {
    const now = JSON.parse(event.data);
    tag(at("state"), marks[now.state] || "na", now.state);
    at("seconds").textContent = now.seconds || "not begun";
    at("running").textContent = now.running.join(", ") || "-";
    if (now.run && !at("run").querySelector("a")) {
      const link = document.createElement("a");
      link.href = now.run;
      link.textContent = "report and files";
      at("run").replaceChildren(link);
    }
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
})();
