// The panel of a playground: what to look at and who runs it. A change is looked at as soon as the server has done it.
import { show } from "../../../view/page/main.js";
import { element, say } from "../../../view/page/state.js";
import { makeProviders } from "./providers.js";
import { changesOf, makeInputs, outputsOf } from "./results.js";

const BETWEEN = 200; // milliseconds from asking how far it is to asking again

/** The answer of the server as an object. Throws an Error whose message is for who reads the page. */
async function ask(method, path, body) {
  const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { method, ...sent });
  } catch {
    throw new Error("The playground does not answer: start ort-lite desk again, and open the address that it prints.");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

/** The job once it runs no more. */
async function over(job, told) {
  while (job?.state === "running") {
    told(job);
    await new Promise((go) => setTimeout(go, BETWEEN));
    job = await ask("GET", "job");
  }
  return job;
}

/** Does one request after the other; of those that come meanwhile the last, and ends what is not wanted any more. */
function makeWorker(told, shown) {
  let next = null;
  let busy = false;
  async function finish(request) {
    await over(await ask("DELETE", "job"), told); // what a page that is gone began
    const begun = await ask("POST", "job", request);
    const job = await over(begun, told);
    if (job.number !== begun.number) throw new Error("Another page of this playground has begun something else.");
    if (job.state === "done" && !next) shown(await ask("GET", "job/result"));
    told(job);
  }
  return async (request) => {
    next = request;
    if (busy) return void (await ask("DELETE", "job").catch(() => null));
    busy = true;
    while (next) {
      const current = next;
      next = null;
      await finish(current).catch((error) => told({ state: "failed", said: error.message }));
    }
    busy = false;
  };
}

function field(label, input) {
  input.id = `playground-${label.match(/\w+/)[0].toLowerCase()}`;
  return element("div", { class: "field" }, element("label", { for: input.id }, label), input);
}

function options(names, chosen) {
  return names.map((name) => element("option", { value: name, selected: name === chosen }, name));
}

/** {root, values()}: the level, threads and config entries. */
function makeOptions({ levels, chosen }) {
  const level = element("select", {}, ...options(levels, chosen.level));
  const threads = element("input", { type: "number", min: 0, max: 1024, value: chosen.threads });
  const config = element("textarea", { rows: 2, spellcheck: "false", placeholder: "KEY=VALUE, one a line" });
  config.value = chosen.config.join("\n");
  const more = element("details", {}, element("summary", {}, "More options"), field("Threads (0: the provider's)", threads),
    field("Session config entries", config));
  return {
    root: element("div", {}, field("Transforms", level), more),
    values: () => ({
      level: level.value,
      threads: threads.valueAsNumber || 0,
      config: config.value.split("\n").map((line) => line.trim()).filter(Boolean),
    }),
  };
}

/** {root, tell(job)}: where the work is, and a button that ends it. */
function makeStatus() {
  const text = element("p", { id: "playground-said", role: "status" });
  const bar = element("progress", { "aria-label": "Working", hidden: true });
  const end = element("button", { type: "button", hidden: true, onclick: () => ask("DELETE", "job").catch(() => null) }, "End it");
  return {
    root: element("div", { class: "playground-status" }, bar, text, end),
    tell(job) {
      text.textContent = job.state === "done" ? `Done in ${job.seconds.toFixed(2)} s.` : job.said;
      text.classList.toggle("failed", job.state === "failed");
      bar.hidden = end.hidden = job.state !== "running";
    },
  };
}

function makePlayground(about) {
  const model = element("select", {}, ...options(about.models.map(({ name }) => name)));
  const providers = makeProviders(about.providers, about.chosen.providers, () => look());
  const settings = makeOptions(about);
  const inputs = makeInputs(about.chosen);
  const status = makeStatus();
  const results = element("div", { class: "playground-results" });
  let before = null;
  const told = (job) => {
    status.tell(job);
    results.classList.toggle("stale", job.state !== "done");
  };
  const start = makeWorker(told, (result) => {
    const plain = { ...result.document };
    const same = before && before.model === result.model;
    show(same ? { ...plain, other: before.document } : plain);
    inputs.show(result.inputs, result.model);
    const changes = changesOf(plain, same && !result.outputs ? before.document : null);
    results.replaceChildren(...outputsOf(result.outputs), ...changes);
    before = { model: result.model, document: plain };
    say(`${result.model} is shown.`);
  });
  const request = () => ({ model: model.value, providers: providers.names(), ...settings.values(), ...inputs.values() });
  const look = () => start({ ...request(), run: false });
  const form = element("form", { onsubmit: (event) => { event.preventDefault(); start({ ...request(), run: true }); } },
    field("Model", model), providers.root, settings.root, inputs.root, element("button", { class: "primary" }, "Run"));
  for (const part of [model, settings.root]) part.addEventListener("change", look);
  look();
  return [form, status.root, results];
}

/** The button that folds the panel, in the page's header; there is room for both where the window is wide. */
function makeFold(root) {
  const button = element("button", { type: "button", "aria-controls": "playground" }, "Playground");
  const fold = (open) => {
    button.setAttribute("aria-expanded", open);
    root.hidden = !open;
    document.body.classList.toggle("has-playground", open);
  };
  button.addEventListener("click", () => fold(root.hidden));
  fold(matchMedia("(min-width: 1000px)").matches);
  return button;
}

async function openPlayground() {
  const root = element("aside", { id: "playground", "aria-label": "Playground" });
  const header = document.querySelector("header");
  header.prepend(makeFold(root));
  header.after(root);
  try {
    root.append(...makePlayground(await ask("GET", "about")));
  } catch (error) {
    root.append(element("p", { class: "failed", role: "alert" }, error.message));
  }
}

openPlayground();
