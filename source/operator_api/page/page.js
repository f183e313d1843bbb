// The operators' page. The address behind the # names the view, so every view can be linked:
//
//   #/               overview
//   #/records?…      a list; the parameters are those of the API
//   #/record/ID      one record
//   #/audit?…        the audit; the parameters are those of the API
//
// Everything that comes from the API is put into the page as text, by element() and data(), never as markup.

const PollInterval = 5000;
const PageLimit = 50;
// As far as a dry run counts.
const PurgeCheckLimit = 10000;

// --- Elements

const isShown = (child) => child !== undefined && child !== null && child !== false && child !== "";

// A child that is not shown is left out. A property that begins with "on" is a listener, all others are attributes.
function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [property, value] of Object.entries(properties ?? {})) {
    if (property.startsWith("on")) {
      made.addEventListener(property.slice(2), value);
    } else if (value !== undefined && value !== null && value !== false) {
      made.setAttribute(property, value === true ? "" : value);
    }
  }
  made.append(...children.flat(Infinity).filter(isShown));
  return made;
}

// Controls, invisible characters, and those that change the direction of text. Bodies keep their line ends and tabs.
const Invisible = "\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202f\\u2060-\\u206f"
  + "\\u3164\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}";
const Hidden = new RegExp(`([\\u0000-\\u001f\\u007f-\\u009f${Invisible}])`, "u");
const HiddenInBody = new RegExp(`([\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f${Invisible}])`, "u");

const spelled = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

// Text from outside, with what a reader would not see spelled out.
function visible(text, hidden = Hidden) {
  return text.split(hidden).map((part, index) => (index % 2 === 0 ? part
    : element("span", { class: "control" }, spelled(part))));
}

// The same as one text: what a reader can type.
const typeable = (text) => text.split(Hidden).map((part, index) => (index % 2 === 0 ? part : spelled(part))).join("");

function data(text) {
  if (text === "") {
    return element("span", { class: "quiet" }, "(empty)");
  }
  return element("bdi", { class: "data" }, visible(text));
}

// Replaces what `container` holds; the focus stays on the element with the same id or the same link.
function replace(container, ...children) {
  const focused = container.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.id ? `#${CSS.escape(focused.id)}` : focused?.getAttribute("href");
  container.replaceChildren(...children.flat(Infinity).filter(isShown));
  if (key) {
    const selector = key.startsWith("#/") ? `a[href="${CSS.escape(key)}"]` : key;
    container.querySelector(selector)?.focus({ preventScroll: true });
  }
}

const byId = (id) => document.getElementById(id);

// Screen readers say it.
function announce(text) {
  byId("announcer").textContent = text;
}

// --- Words

const States = {
  in_progress: "in progress",
  completed: "completed",
  failed_retryable: "failed, retryable",
  unknown: "unknown",
  expired: "expired",
};
const StateClass = { unknown: "bad", completed: "good", in_progress: "warn" };

const AuditActions = {
  lease_to_unknown: "The lease expired: the outcome is unknown",
  lease_to_retry: "The lease expired: the next request runs",
  expire: "The record expired",
  delete: "Deleted after its life",
  resolve_completed: "Resolved as completed",
  resolve_not_run: "Resolved as not run",
  release: "Released",
  bust: "Result busted",
  ask_again: "The upstream is to be asked again",
  dead_letter: "Dead letter: the reconciler has given up",
  purge: "The tenant was purged",
};

const auditAction = (action) => (Object.hasOwn(AuditActions, action) ? AuditActions[action] : data(action));

const TombstoneReasons = {
  too_large: "The response was too large to be stored.",
  secret: "The response was not stored, because it holds a secret.",
  unstorable: "The response could not be stored.",
};

function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const rest = Math.max(0, Math.floor(seconds));
  const first = units.findIndex(([, size]) => rest >= size);
  if (first < 0) {
    return "0 s";
  }
  const [unit, size] = units[first];
  const parts = [`${Math.floor(rest / size)} ${unit}`];
  const next = units[first + 1];
  if (next && unit !== "min" && Math.floor((rest % size) / next[1]) > 0) {
    parts.push(`${Math.floor((rest % size) / next[1])} ${next[0]}`);
  }
  return parts.join(" ");
}

const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

function time(text) {
  return element("time", { datetime: text }, `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`);
}

function stateBadge(record) {
  const expired = record.state === "in_progress" && !record.lease_alive;
  return [
    element("span", { class: `badge ${StateClass[record.state] ?? ""}` }, States[record.state] ?? record.state),
    expired && [" ", element("span", { class: "badge bad" }, "lease expired")],
    record.dead_letter && [" ", element("span", { class: "badge bad" }, "dead letter")],
  ];
}

// --- The API

// What the API, or something on the way to it, said instead of a result.
class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? "");
    this.status = status;
    this.title = body.title ?? "The request failed";
    this.code = body.code ?? "";
    this.record = body.record ?? null;
  }
}

function problemOf(response, text) {
  try {
    return new Problem(response.status, JSON.parse(text));
  } catch {
    const detail = `The answer is ${response.status} and does not come from the operator filter.`;
    return new Problem(response.status, { title: "Not the answer of the operator filter", detail });
  }
}

async function call(path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  let response;
  let text;
  try {
    response = await fetch(`v1/${path}`, { cache: "no-store", ...options });
    text = await response.text();
  } catch {
    const lost = body ? " A change may have been made: look at the record before you repeat it." : "";
    throw new Problem(0, { title: "Envoy does not answer", detail: `The connection failed.${lost}` });
  }
  if (!response.ok) {
    throw problemOf(response, text);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw problemOf(response, "");
  }
}

// --- Addresses

const recordLink = (id) => `#/record/${encodeURIComponent(id)}`;

function viewLink(view, filter) {
  const query = new URLSearchParams(filter).toString();
  return `#/${view}${query && `?${query}`}`;
}

const listLink = (filter) => viewLink("records", filter);
const auditLink = (filter) => viewLink("audit", filter);

function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  if (path.startsWith("/record/")) {
    return { view: showRecord, tab: "", id: path.slice("/record/".length) };
  }
  if (path === "/records") {
    const filter = new URLSearchParams(query);
    const unknown = filter.get("state") === "unknown";
    return { view: showList, tab: unknown ? "to-unknown" : "to-records", filter };
  }
  if (path === "/audit") {
    return { view: showAudit, tab: "to-audit", filter: new URLSearchParams(query) };
  }
  return { view: showOverview, tab: "to-overview" };
}

// --- Common parts

function heading(...content) {
  const made = element("h1", { tabindex: "-1" }, content);
  document.title = `${made.textContent} · Idempotency records`;
  return made;
}

function problemNotice(problem, retry) {
  return element("div", { class: "notice bad", role: "alert" },
    element("strong", null, problem.title ?? "This page has a bug"),
    element("p", null, data(problem.message)),
    retry && element("p", null, element("button", { type: "button", onclick: retry }, "Try again")));
}

function facts(rows) {
  return element("dl", { class: "facts" },
    rows.filter(Boolean).map(([name, value]) => [element("dt", null, name), element("dd", null, value)]));
}

// The roles are written out, because the narrow layout takes the display of a table away. The first cell is a header.
function table(caption, columns, rows) {
  const numeric = (index) => (columns[index].numeric ? "number" : null);
  return element("table", { class: "stacked", role: "table" },
    element("caption", null, caption),
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" },
      columns.map(({ name }, index) =>
        element("th", { scope: "col", role: "columnheader", class: numeric(index) }, name)))),
    element("tbody", { role: "rowgroup" }, rows.map((cells) => element("tr", { role: "row" },
      cells.map((cell, index) => (index === 0
        ? element("th", { scope: "row", role: "rowheader" }, cell)
        : element("td", { role: "cell", class: numeric(index), "data-column": columns[index].name }, cell)))))));
}

// --- Overview

function verdict(summary) {
  const unknown = summary.unknown_records;
  if (unknown === 0) {
    return { text: "Nothing is stuck", kind: summary.leader ? "good" : "warn" };
  }
  const text = `${count(unknown, "request is", "requests are")} stuck with an unknown outcome`;
  return { text, kind: summary.dead_letters > 0 ? "bad" : "warn" };
}

function sinceWhen(summary) {
  if (summary.unknown_records === 0) {
    return element("p", null, "Every request that has ended has a known outcome. Retries are answered.");
  }
  const oldest = duration(summary.oldest_unknown_seconds);
  return element("p", null, `The oldest has been stuck for ${oldest}. `,
    "Retries of these requests are refused with 409 until it is known whether they ran.");
}

function whatToDo(summary) {
  if (summary.unknown_records === 0) {
    return null;
  }
  const dead = summary.dead_letters;
  const filter = dead > 0 ? { state: "unknown", dead_letter: "true" } : { state: "unknown" };
  return element("div", { class: "card" },
    element("h2", null, "What to do"),
    element("ol", { class: "steps" },
      dead > 0
        ? element("li", null, `Begin with the ${count(dead, "dead letter")}: the reconciler has given up on `,
          dead === 1 ? "it, so only an operator settles it." : "them, so only an operator settles them.")
        : element("li", null, "Where the reconciler is configured, it asks the upstream by itself. ",
          "If the number does not fall, or if no reconciler is configured, continue here."),
      element("li", null, "Open a record and give its key and attempt to the service team. ",
        "Ask whether this attempt ran: the service got both in the headers of the request."),
      element("li", null, "Resolve the record: completed with its response, or not run. ",
        "Never guess “not run”: if it ran after all, it runs twice.")),
    element("p", { class: "buttons" },
      element("a", { class: "button main", href: listLink(filter) },
        dead > 0 ? "Show the dead letters" : "Show the unknown records"),
      dead > 0 && element("a", { class: "button", href: listLink({ state: "unknown" }) }, "Show all unknown records")));
}

function operationsTable(summary) {
  const columns = [{ name: "Operation" }, { name: "Unknown", numeric: true }, { name: "Dead letters", numeric: true },
    { name: "Oldest", numeric: true }];
  const rows = summary.unsettled.map((row) => [
    element("a", { href: listLink({ state: "unknown", operation: row.operation }) }, data(row.operation)),
    row.records.toLocaleString("en"), row.dead_letters.toLocaleString("en"), duration(row.oldest_seconds)]);
  return element("div", { class: "card" }, table("Affected operations", columns, rows));
}

function tenantsTable(summary) {
  const columns = [{ name: "Tenant" }, { name: "Unknown", numeric: true }, { name: "Oldest", numeric: true }];
  const rows = summary.tenants.map((row) => [
    element("a", { href: listLink({ state: "unknown", tenant: row.tenant }) }, data(row.tenant)),
    row.records.toLocaleString("en"), duration(row.oldest_seconds)]);
  return element("div", { class: "card" }, table("Affected tenants, longest wait first", columns, rows),
    !summary.tenants_complete && element("p", { class: "quiet small" },
      "There are more. Counted are only the oldest unknown records."));
}

function stateNumbers(summary) {
  const states = Object.entries(summary.states);
  return element("div", { class: "card" },
    element("h2", null, "Records by state"),
    states.length === 0 && element("p", { class: "quiet" }, "The store has no records."),
    states.length > 0 && element("dl", { class: "numbers" }, states.map(([state, number]) => element("div", null,
      element("dt", null, element("a", { href: listLink({ state }) }, States[state] ?? state)),
      element("dd", null, number.toLocaleString("en"))))),
    !summary.states_complete && element("p", { class: "quiet small" },
      "The store has more records than are counted here."));
}

function storeFacts(summary) {
  return element("div", { class: "card" },
    element("h2", null, "Store"),
    facts([
      ["Time of the store", time(summary.now)],
      ["Background jobs", summary.leader ? data(summary.leader)
        : element("span", { class: "badge warn" }, "no Envoy runs them")],
      ["Schema version", String(summary.schema_version)],
    ]));
}

function overview(summary) {
  const { text, kind } = verdict(summary);
  const stuck = summary.unknown_records > 0;
  return [
    element("section", { class: `card verdict ${kind}` },
      heading(text),
      sinceWhen(summary),
      stuck && element("dl", { class: "numbers" },
        element("div", null, element("dt", null, "unknown"), element("dd", null, summary.unknown_records)),
        element("div", null, element("dt", null, "dead letters"), element("dd", null, summary.dead_letters)),
        element("div", null, element("dt", null, "oldest"),
          element("dd", null, duration(summary.oldest_unknown_seconds)))),
      !summary.leader && element("div", { class: "notice" },
        element("strong", null, "No Envoy runs the background jobs"),
        element("p", null, "Requests of an Envoy that crashed stay in progress, and the upstream is not asked. ",
          "See “maintenance” in the configuration, and the log of each Envoy."))),
    whatToDo(summary),
    stuck && element("div", { class: "columns" }, operationsTable(summary), tenantsTable(summary)),
    element("div", { class: "columns" }, stateNumbers(summary), storeFacts(summary)),
  ];
}

async function showOverview(view) {
  const summary = await refreshSummary();
  view.show(overview(summary));
  // A reader who is copying something needs it to stay.
  view.onSummary = (fresh) => getSelection().isCollapsed && view.show(overview(fresh));
}

// --- Lists

const FilterFields = [
  { name: "tenant", label: "Tenant" },
  { name: "operation", label: "Operation" },
  { name: "key", label: "Key" },
];
const AttemptField = { name: "attempt", label: "Attempt", inputmode: "numeric" };
const MoreFilterFields = [
  { name: "key_hash", label: "Key hash (access log)" },
  AttemptField,
  { name: "error", label: "Error" },
  { name: "min_age_seconds", label: "Minimum age in seconds", inputmode: "numeric" },
];

function filterField(filter, { name, label, inputmode }) {
  return element("div", { class: "field" },
    element("label", { for: `filter-${name}` }, label),
    element("input", {
      id: `filter-${name}`, name, type: "text", inputmode, autocomplete: "off", spellcheck: "false",
      value: filter.get(name) ?? "",
    }));
}

// Leads to the same view with what its fields say.
function searchForm(view, ...fields) {
  const apply = (event) => {
    event.preventDefault();
    const wanted = new FormData(event.target);
    const link = viewLink(view, [...wanted].filter(([, value]) => value !== ""));
    if (location.hash === link) {
      load();
    } else {
      location.hash = link;
    }
  };
  return element("form", { class: "card", role: "search", "aria-label": "Filter", onsubmit: apply },
    fields,
    element("div", { class: "buttons" },
      element("button", { class: "main", type: "submit" }, "Apply"),
      element("a", { class: "button", href: viewLink(view) }, "Clear")));
}

function filterForm(filter) {
  const state = element("select", { id: "filter-state", name: "state" },
    [["", "any"], ...Object.entries(States)].map(([value, label]) =>
      element("option", { value, selected: (filter.get("state") ?? "") === value }, label)));
  return searchForm("records",
    element("div", { class: "filters" },
      element("div", { class: "field" }, element("label", { for: "filter-state" }, "State"), state),
      FilterFields.map((field) => filterField(filter, field))),
    element("details", { open: MoreFilterFields.some(({ name }) => filter.has(name)) || filter.has("dead_letter") },
      element("summary", null, "More filters"),
      element("div", { class: "filters" },
        MoreFilterFields.map((field) => filterField(filter, field)),
        element("label", { class: "check" },
          element("input", {
            type: "checkbox", name: "dead_letter", value: "true", checked: filter.get("dead_letter") === "true",
          }),
          "Only dead letters"))));
}

function recordsTable(records, caption) {
  const columns = [{ name: "Key" }, { name: "State" }, { name: "Operation" }, { name: "Tenant" },
    { name: "Age", numeric: true }, { name: "Error" }];
  const rows = records.map((record) => [
    element("a", { href: recordLink(record.id) }, data(record.key)),
    stateBadge(record), data(record.operation), data(record.tenant), duration(record.age_seconds),
    record.last_error === null ? "" : data(record.last_error)]);
  return table(caption, columns, rows);
}

function listTitle(filter) {
  if (filter.get("dead_letter") === "true") {
    return "Dead letters";
  }
  const state = filter.get("state");
  return state ? `Records: ${States[state] ?? state}` : "Records";
}

function pager(name, filter, nextCursor) {
  const first = new URLSearchParams(filter);
  first.delete("cursor");
  const next = new URLSearchParams(filter);
  next.set("cursor", nextCursor ?? "");
  return element("div", { class: "buttons" },
    filter.has("cursor") && element("a", { class: "button", href: viewLink(name, first) }, "First page"),
    nextCursor && element("a", { class: "button", href: viewLink(name, next) }, "Next page"),
    element("button", { type: "button", id: "refresh", onclick: load }, "Refresh"));
}

// One page of a list of the API. `rowsOf` finds the rows in the answer; `noun` names one of them and many; `after`
// stands below the list.
async function showPage(view, { name, filter, intro, noun, rowsOf, tableOf, after }) {
  const query = new URLSearchParams(filter);
  query.set("limit", PageLimit);
  let page;
  try {
    page = await call(`${name}?${query}`);
  } catch (problem) {
    view.show(intro, problemNotice(problem, load));
    return;
  }
  const rows = rowsOf(page);
  const number = count(rows.length, ...noun);
  const nothing = `No ${noun[0]} matches.`;
  if (!view.current()) {
    return;
  }
  view.show(intro,
    element("section", { class: "card", "aria-label": "Results" },
      rows.length === 0 && element("p", null, filter.has("cursor") ? `There are no more ${noun[1]}.` : nothing),
      rows.length > 0 && tableOf(rows, `${number}${page.next_cursor ? " on this page, more follow" : ""}`),
      pager(name, filter, page.next_cursor)),
    after);
  announce(rows.length === 0 ? nothing : number);
}

async function showList(view, { filter }) {
  const tenant = filter.get("tenant");
  await showPage(view, {
    name: "records",
    filter,
    intro: [heading(listTitle(filter)), filterForm(filter)],
    noun: ["record", "records"],
    rowsOf: (page) => page.records,
    tableOf: recordsTable,
    after: tenant && tenantCard(tenant),
  });
}

// --- Audit

function auditTable(entries, caption) {
  const columns = [{ name: "Time" }, { name: "What happened" }, { name: "Record" }, { name: "By" }, { name: "Detail" }];
  const about = ({ record, attempt, records }) => (record === null ? count(records, "record") : [
    element("a", { href: recordLink(record.id) }, data(record.key)),
    element("div", { class: "quiet small" }, data(record.operation), " · tenant ", data(record.tenant),
      attempt !== null && [" · attempt ", data(attempt)])]);
  const rows = entries.map((entry) => [time(entry.at), auditAction(entry.action), about(entry), data(entry.actor),
    entry.detail === "" ? "" : data(entry.detail)]);
  return table(caption, columns, rows);
}

async function showAudit(view, { filter }) {
  const tenant = filter.get("tenant");
  await showPage(view, {
    name: "audit",
    filter,
    intro: [
      heading("Audit"),
      searchForm("audit", element("div", { class: "filters" },
        [...FilterFields, AttemptField].map((field) => filterField(filter, field)))),
    ],
    noun: ["entry", "entries"],
    rowsOf: (page) => page.entries,
    tableOf: auditTable,
    after: tenant && element("p", null,
      element("a", { href: listLink({ tenant }) }, "Records of the tenant ", data(tenant))),
  });
}

// --- Record

// What the store allows in which state; the store itself judges again.
function changesOf(record) {
  switch (record.state) {
    case "unknown":
      return ["completed", "notRun", "askAgain", "release"];
    case "in_progress":
      return record.lease_alive ? [] : ["completed", "notRun", "release"];
    case "failed_retryable":
      return ["release", "bust"];
    case "completed":
    case "expired":
      return ["bust"];
    default:
      return [];
  }
}

const mayHaveRun = (record) => record.state === "unknown" || record.state === "in_progress";

// `summary` says when to use it, `consequence` what happens then.
const Changes = {
  completed: {
    path: "resolve",
    label: "Resolve: completed",
    summary: "The request ran, and you know its result.",
    consequence: () => "No request with this key runs again. From now on, every retry gets the response below, as if "
      + "the first request had returned it. If the request did not run, its client will never know.",
    confirm: "Resolve as completed",
    done: "The record is resolved as completed.",
  },
  notRun: {
    path: "resolve",
    label: "Resolve: not run",
    summary: "The request did not run, and it never will.",
    consequence: () => "The next request with this key runs. If this attempt ran after all, or is still on its way to "
      + "the service, the operation is carried out twice.",
    confirm: "Resolve as not run",
    done: "The record is resolved as not run: the next request with its key runs.",
  },
  askAgain: {
    path: "ask_again",
    label: "Ask again",
    summary: "The upstream can say by now what became of the request.",
    consequence: () => "The reconciler asks the upstream as soon as it can and counts its tries from 0. Nothing runs. "
      + "Where no reconciler is configured for the operation, the record stays as it is.",
    confirm: "Ask again",
    done: "The upstream will be asked again.",
  },
  release: {
    path: "release",
    label: "Release",
    summary: "The key is needed again, also for a different request.",
    consequence: (record) => `The key is free: the next request with it runs, whatever it asks for. ${mayHaveRun(record)
      ? "If this attempt ran, the operation is carried out twice."
      : "The failed request is forgotten."}`,
    confirm: "Release the key",
    done: "The key is released.",
  },
  bust: {
    path: "bust",
    label: "Bust",
    summary: "The stored result is wrong and must not be replayed.",
    consequence: (record) => (record.state === "failed_retryable"
      ? "The record is deleted. The next request with this key runs."
      : "The stored result is deleted, and no Envoy replays it after its replay_cache.max_age. The next request with "
        + "this key runs, although this one has already run."),
    confirm: "Bust the result",
    done: "The result is busted.",
  },
};

function changesCard(record) {
  const names = changesOf(record);
  if (state.readOnly) {
    return element("section", { class: "card" }, element("h2", null, "Changes"),
      element("p", { class: "quiet" }, "This page is read-only: its configuration allows no changes."));
  }
  return element("section", { class: "card" },
    element("h2", null, "What you can do"),
    names.length === 0 && element("p", null, "Nothing while its request runs: only its own end counts. ",
      "If its Envoy has crashed, the record becomes unknown when the lease expires."),
    names.length > 0 && element("ul", { class: "actions" }, names.map((name) => element("li", null,
      element("button", { type: "button", id: `change-${name}`, onclick: () => openChange(name, record) },
        Changes[name].label),
      element("span", { class: "quiet" }, Changes[name].summary)))));
}

function bodyText(response) {
  if (response.body_base64 !== undefined) {
    return [element("p", { class: "quiet small" }, "The body is not text. In base64:"),
      element("pre", { tabindex: "0", "aria-label": "Body in base64" }, response.body_base64)];
  }
  if (response.body === "") {
    return element("p", { class: "quiet" }, "The body is empty.");
  }
  return element("pre", { tabindex: "0", "aria-label": "Body" },
    element("bdi", null, visible(response.body, HiddenInBody)));
}

function fieldRows(fields) {
  return fields.map(({ name, value }) => [data(name), data(value)]);
}

function storedResponse(record) {
  const { response } = record;
  if (record.state !== "completed") {
    return null;
  }
  const content = () => {
    if (response === null) {
      return element("p", null, TombstoneReasons[record.tombstone] ?? "There is no stored response.",
        " Retries get 409 with the original status.");
    }
    if (!response.readable) {
      return element("p", null, "This module cannot read the stored response.");
    }
    if (!response.shown) {
      return element("p", { class: "quiet" }, `${response.body_bytes.toLocaleString("en")} bytes. `,
        "The configuration does not show responses of this operation (show_responses).");
    }
    return [facts(fieldRows(response.headers)), bodyText(response),
      response.trailers.length > 0 && [element("h3", null, "Trailers"), facts(fieldRows(response.trailers))]];
  };
  return element("section", { class: "card" },
    element("h2", null, `Stored response: status ${record.status}`), content());
}

function recordFacts(record) {
  return element("section", { class: "card" },
    element("h2", null, "Record"),
    facts([
      ["Key", data(record.key)],
      ["Tenant", record.tenant === "" ? data("")
        : element("a", { href: listLink({ tenant: record.tenant }) }, data(record.tenant))],
      ["Operation", data(record.operation)],
      ["Attempt", data(record.attempt)],
      ["Key hash", data(record.key_hash)],
      record.last_error !== null && ["Error", data(record.last_error)],
      ["Age of the attempt", duration(record.age_seconds)],
      ["Recovery point", data(record.recovery_point)],
      record.state === "in_progress" && ["Lease", record.lease_alive
        ? `${duration(record.lease_left_seconds)} left` : `expired; then: ${record.on_lease_expired}`],
      record.state === "unknown" && ["Next question to the upstream", record.next_try_seconds === null
        ? "none is planned" : `in ${duration(record.next_try_seconds)}`],
      ["Life", record.state === "unknown" ? "kept until it is settled"
        : [record.expired ? "ended " : "ends ", time(record.expires_at)]],
      record.fingerprint && [`Fingerprint, version ${record.fingerprint.version}`, data(record.fingerprint.digest)],
    ]));
}

// Newest first, as the audit is.
function timeline(record) {
  const entries = record.timeline.map((entry) => ({
    at: entry.at,
    title: auditAction(entry.action),
    by: entry.actor,
    attempt: entry.attempt,
    detail: entry.detail,
  }));
  if (record.completed_at !== null) {
    entries.push({ at: record.completed_at, title: `Completed with status ${record.status}`, attempt: record.attempt });
  }
  entries.push({ at: record.created_at, title: "The key was claimed for the first time" });
  entries.sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0));
  return element("section", { class: "card" },
    element("h2", null, "Timeline"),
    element("ol", { class: "timeline" }, entries.map((entry) => element("li", null,
      element("div", null, element("strong", null, entry.title)),
      element("div", { class: "quiet small" }, time(entry.at), entry.by && [" by ", data(entry.by)],
        entry.attempt && [", attempt ", data(entry.attempt)]),
      entry.detail && element("div", null, data(entry.detail))))),
    !record.timeline_complete && element("p", { class: "quiet small" }, "Older entries are left out."),
    element("p", null, element("a", {
      href: auditLink({ tenant: record.tenant, operation: record.operation, key: record.key }),
    }, "This key in the audit")));
}

function situation(record) {
  switch (record.state) {
    case "unknown":
      return `The attempt began ${duration(record.age_seconds)} ago, and it is not known whether it ran. `
        + "Retries with its key are refused with 409."
        + (record.dead_letter ? " The reconciler has given up: an operator has to settle it." : "");
    case "in_progress":
      return record.lease_alive ? "The request is running."
        : "The lease has expired: the request's Envoy has crashed or lost the store.";
    case "failed_retryable":
      return "The request failed, and may run again. The next one with its key and the same content runs.";
    case "completed":
      return "The request ran. Retries get its stored response.";
    case "expired":
      return "The record's life is over. Only the fact that the key was used is kept.";
    default:
      return "";
  }
}

function recordPage(record) {
  const kind = StateClass[record.state] ?? "";
  return [
    element("section", { class: `card verdict ${kind}` },
      heading("Record ", data(record.key)),
      element("p", null, stateBadge(record)), element("p", null, situation(record))),
    changesCard(record),
    element("div", { class: "columns" }, recordFacts(record), timeline(record)),
    storedResponse(record),
  ];
}

// What makes a reader look again. Ages move by themselves.
const sameRecord = (one, other) => ["attempt", "state", "dead_letter", "lease_alive", "last_error"].every(
  (name) => one[name] === other[name]) && one.timeline.length === other.timeline.length;

// Null: there is no such record.
async function findRecord(id) {
  try {
    return await call(`records/${id}`);
  } catch (problem) {
    if (problem.code === "record_not_found") {
      return null;
    }
    throw problem;
  }
}

function missingRecord() {
  return element("section", { class: "card" },
    heading("There is no such record"),
    element("p", null, "It was released, busted or purged, its life has ended, or the link is wrong. ",
      "The next request with its key runs."),
    element("p", null, element("a", { class: "button", href: "#/" }, "To the overview")));
}

async function showRecord(view, { id }) {
  const record = await findRecord(id);
  view.show(record === null ? missingRecord() : recordPage(record));
  view.onSummary = async () => {
    const fresh = record && await findRecord(id);
    // An open dialog shows what its reader decided on; the store refuses a change that comes too late.
    if (record === null || !view.current() || byId("dialog").open || (fresh && sameRecord(record, fresh))) {
      return;
    }
    await load();
    announce("The record has changed.");
  };
}

// --- The dialog of a change: fill in, check (a dry run), confirm

const HeaderLine = /^([^:\s]+):[ \t]*(.*?)[ \t]*$/;

// "name: value" per line. Throws a Problem that names the line.
function parseHeaders(text) {
  return text.split("\n").filter((line) => line.trim() !== "").map((line) => {
    const match = HeaderLine.exec(line);
    if (!match) {
      throw new Problem(0, { title: "A header cannot be read", detail: `Write “name: value”, not “${line}”.` });
    }
    return { name: match[1], value: match[2] };
  });
}

function responseFields() {
  const unavailable = element("input", { type: "checkbox", id: "unavailable", name: "unavailable" });
  const content = element("div", { class: "field" },
    element("label", { for: "headers" }, "Headers, one per line"),
    element("textarea", { id: "headers", name: "headers", rows: "2", spellcheck: "false" },
      "content-type: application/json"),
    element("label", { for: "body" }, "Body"),
    element("textarea", { id: "body", name: "body", rows: "5", spellcheck: "false" }));
  unavailable.addEventListener("change", () => {
    content.hidden = unavailable.checked;
  });
  return [
    element("div", { class: "field" },
      element("label", { for: "status" }, "Status of the response"),
      element("input", {
        id: "status", name: "status", type: "number", min: "200", max: "599", required: true, value: "201",
      })),
    element("label", { class: "check" }, unavailable,
      "I know only the status: retries learn that the request ran, and get no response"),
    content,
  ];
}

function responseOf(form) {
  const status = Number(form.status.value);
  if (form.unavailable.checked) {
    return { status, unavailable: true };
  }
  return { status, headers: parseHeaders(form.headers.value), body: form.body.value };
}

function changeBody(name, record, form) {
  const body = { attempt: record.attempt, reason: form.reason.value.trim() };
  if (name === "completed") {
    return { ...body, outcome: "completed", response: responseOf(form) };
  }
  return name === "notRun" ? { ...body, outcome: "not_run" } : body;
}

function staleNotice(seen, found, reload) {
  const rows = [["Attempt", "attempt"], ["State", "state"], ["Error", "last_error"]]
    .map(([label, field]) => [label, seen[field] ?? "none", found[field] ?? "none"])
    .map(([label, before, now]) => [label, data(States[before] ?? before),
      before === now ? "no change" : element("strong", null, data(States[now] ?? now))]);
  return element("div", { class: "notice bad", role: "alert", id: "stale" },
    element("strong", null, "The record has changed since you opened it. Your change was not made."),
    element("p", null, seen.attempt === found.attempt ? "Its state does not allow this change any more."
      : "Another attempt has claimed the record. What you know about the old attempt says nothing about the new one."),
    table("What changed", [{ name: "" }, { name: "You saw" }, { name: "Now" }], rows),
    element("p", null,
      element("button", { type: "button", id: "reload", onclick: reload }, "Show the record as it is now")));
}

// What was checked is what is confirmed: an edit needs another check, and none is possible meanwhile. One request at a
// time, however often a button is pressed. `fields` stand before the reason. `bodyOf` reads the form, and may throw a
// Problem. `onCheck` resolves to what to show and to the label of the confirmation, or does not allow one. `onConfirm`
// does it.
function openDialog({
  title, about, consequence, fields, hint, danger, bodyOf, onCheck, onConfirm, noticeOf, onClose,
}) {
  const dialog = byId("dialog");
  const outcome = element("div", { id: "outcome" });
  const check = element("button", { type: "submit", class: "main", id: "check" }, "Check");
  const confirm = element("button", { type: "button", class: danger ? "danger" : "main", id: "confirm", hidden: true });
  const cancel = element("button", { type: "button", id: "cancel", onclick: () => dialog.close() }, "Cancel");
  let checked = null;

  const editAgain = () => {
    checked = null;
    confirm.hidden = true;
    check.hidden = false;
    replace(outcome);
  };
  const busy = async (work) => {
    if (check.disabled) {
      return;
    }
    check.disabled = confirm.disabled = inputs.disabled = true;
    try {
      await work();
    } catch (problem) {
      editAgain();
      replace(cancel, "Cancel");
      replace(outcome, noticeOf(problem));
    } finally {
      check.disabled = confirm.disabled = inputs.disabled = false;
      [confirm, check, cancel].find((button) => !button.hidden).focus();
    }
  };
  const onSubmit = (event) => {
    event.preventDefault();
    busy(async () => {
      const body = bodyOf(form);
      const { notice, allowed = true, label } = await onCheck({ ...body, dry_run: true });
      replace(outcome, notice);
      if (allowed) {
        checked = body;
        replace(confirm, label);
        check.hidden = true;
        confirm.hidden = false;
      }
    });
  };
  confirm.addEventListener("click", () => busy(() => onConfirm({ ...checked, dry_run: false },
    { form, outcome, check, confirm, cancel })));

  const inputs = element("fieldset", null,
    fields,
    element("div", { class: "field" },
      element("label", { for: "reason" }, "Reason, for the audit"),
      element("input", {
        id: "reason", name: "reason", required: true, maxlength: "250", autocomplete: "off",
        "aria-describedby": "reason-hint",
      }),
      element("p", { class: "quiet small", id: "reason-hint" }, hint)));
  const form = element("form", { onsubmit: onSubmit, oninput: editAgain },
    element("h2", { id: "dialog-title", tabindex: "-1" }, title),
    element("p", null, about),
    element("div", { class: "notice", id: "consequence" },
      element("strong", null, "What happens then"), element("p", null, consequence)),
    inputs,
    outcome,
    element("div", { class: "buttons" }, check, confirm, cancel));
  dialog.replaceChildren(form);
  dialog.showModal();
  byId("dialog-title").focus();
  // The event comes late: by then the dialog may be open for the next change, which has its own form.
  const closed = () => {
    if (dialog.open && form.isConnected) {
      return;
    }
    dialog.removeEventListener("close", closed);
    form.remove();
    onClose?.();
  };
  dialog.addEventListener("close", closed);
}

const goodNotice = (title, ...more) => element("div", { class: "notice good", role: "status" },
  element("strong", null, title), more);

function openChange(name, record) {
  const change = Changes[name];
  const dialog = byId("dialog");
  const send = (body) => call(`records/${record.id}/${change.path}`, body);
  const reload = () => {
    dialog.close();
    load();
  };
  openDialog({
    title: change.label,
    about: [data(record.operation), " · ", data(record.key), " · tenant ", data(record.tenant),
      " · attempt ", data(record.attempt)],
    consequence: change.consequence(record),
    fields: name === "completed" && responseFields(),
    hint: "How you know, and where it is written: a ticket, a log line.",
    bodyOf: (form) => changeBody(name, record, form),
    onCheck: async (body) => {
      await send(body);
      const notice = goodNotice("The store allows this change. Nothing has been changed yet.",
        element("p", null, "Read the consequence above once more, then confirm."));
      return { notice, label: change.confirm };
    },
    onConfirm: async (body) => {
      await send(body);
      dialog.close();
      await load();
      document.querySelector("h1")?.focus();
      announce(change.done);
    },
    noticeOf: (problem) => ((problem.code === "stale" || problem.code === "refused") && problem.record !== null
      ? staleNotice(record, problem.record, reload) : problemNotice(problem)),
  });
}

// --- The purge of a tenant

function tenantCard(tenant) {
  return element("section", { class: "card" },
    element("h2", null, "Tenant ", data(tenant)),
    !state.readOnly && element("p", { class: "quiet" },
      "If the tenant leaves, or asks for it, all that is stored of it can be deleted."),
    element("div", { class: "buttons" },
      element("a", { class: "button", href: auditLink({ tenant }) }, "Show its audit"),
      !state.readOnly && element("button", { type: "button", id: "purge", onclick: () => openPurge(tenant) },
        "Purge the tenant")));
}

// Of a purge, or of several steps. `more`: there is more than one step can count or delete.
function purgeFacts(result, more) {
  const least = (number) => (more ? `at least ${number.toLocaleString("en")}` : number.toLocaleString("en"));
  return facts([
    ["Records and their responses", least(result.records)],
    ["Of these, with an unknown outcome", least(result.unsettled)],
    ["Left, because their requests are running", least(result.running)],
    ["Entries of the audit that lose the name", least(result.audit_entries)],
  ]);
}

function purgeNotice(result) {
  if (result.records === 0 && result.audit_entries === 0) {
    return { allowed: false, notice: element("div", { class: "notice", role: "status" },
      element("strong", null, "There is nothing to purge."),
      element("p", null, result.running > 0
        ? `${count(result.running, "request")} of the tenant ${result.running === 1 ? "is" : "are"} running. Wait for `
          + `${result.running === 1 ? "its end" : "their ends"}.`
        : "The store has neither records of this tenant nor entries in the audit.")) };
  }
  const records = count(result.records, "record");
  return {
    label: `Purge ${result.more ? `at least ${records}` : records}`,
    notice: element("div", { class: "notice", role: "status" },
      element("strong", null, "This is what a purge does. Nothing has been changed yet."),
      purgeFacts(result, result.more),
      result.unsettled > 0 && element("p", null, "Settle the unknown outcomes first, if anybody still wants to know ",
        "whether these requests ran.")),
  };
}

// Step by step, so that nobody waits long for the store. `steps` has what was done, also after a failure.
async function purgeAll(body, steps, onStep) {
  let result;
  do {
    result = await call("tenants/purge", body);
    steps.records += result.records;
    steps.unsettled += result.unsettled;
    steps.audit_entries += result.audit_entries;
    steps.running = result.running;
    steps.more = result.more;
  } while (result.more && onStep());
}

function openPurge(tenant) {
  const steps = { records: 0, unsettled: 0, audit_entries: 0, running: 0, more: false };
  let purge = null;
  let open = true;
  const soFar = () => `${count(steps.records, "record")} deleted so far.`;

  const finish = ({ form, outcome, check, confirm, cancel }) => {
    form.querySelectorAll("fieldset, #consequence").forEach((part) => {
      part.hidden = true;
    });
    check.hidden = confirm.hidden = true;
    replace(cancel, "Close");
    replace(outcome, goodNotice("The tenant is purged.", purgeFacts(steps, false),
      steps.running > 0 && element("p", null, "Purge it again when these requests have ended.")));
  };
  openDialog({
    title: "Purge the tenant",
    about: ["Tenant ", data(tenant)],
    consequence: ["All records of the tenant are deleted with their responses, whatever their state. The next request ",
      "with one of its keys runs, also if that request has run before. In the audit, hashes replace the tenant's name ",
      "and its keys, and details are removed. Records whose requests are running are left. ",
      element("strong", null, "This cannot be undone.")],
    danger: true,
    fields: element("div", { class: "field" },
      element("label", { for: "typed" }, "Type the name of the tenant"),
      element("input", { id: "typed", name: "typed", required: true, autocomplete: "off", spellcheck: "false" })),
    hint: "Who asked for it, and where it is written.",
    bodyOf: (form) => {
      const typed = form.typed.value;
      if (typed !== tenant && typed !== typeable(tenant)) {
        throw new Problem(0, { title: "This is not the name of the tenant", detail: `Type “${tenant}”, exactly.` });
      }
      return { tenant, reason: form.reason.value.trim() };
    },
    onCheck: async (body) => purgeNotice(await call("tenants/purge", { ...body, limit: PurgeCheckLimit })),
    onConfirm: async (body, parts) => {
      replace(parts.cancel, "Stop");
      parts.cancel.focus();
      const progress = element("div", { class: "notice", role: "status", id: "progress" }, "The purge has begun.");
      replace(parts.outcome, progress);
      purge = purgeAll(body, steps, () => {
        progress.textContent = soFar();
        return open;
      });
      await purge;
      finish(parts);
    },
    noticeOf: (problem) => [purge && element("p", { class: "notice" }, soFar()), problemNotice(problem)],
    // Without its dialog, a purge ends after the step that has begun.
    onClose: async () => {
      open = false;
      if (purge === null) {
        return;
      }
      const failure = await purge.then(() => "", (problem) => `The purge has failed: ${problem.title}`);
      await load();
      document.querySelector("h1")?.focus();
      announce(failure || (steps.more ? `Stopped: ${soFar()}` : "The tenant is purged."));
    },
  });
}

// --- The views, and their updates

const state = { readOnly: false, view: null, headline: "", summaryAt: "" };

async function refreshSummary() {
  const summary = await call("summary");
  state.readOnly = summary.read_only;
  byId("read-only").hidden = !summary.read_only;
  byId("unknown-count").textContent = summary.unknown_records;
  byId("unknown-count").hidden = summary.unknown_records === 0;
  byId("freshness").textContent = `Updated ${summary.now.slice(11, 19)} UTC`;
  const headline = verdict(summary).text;
  if (state.headline !== "" && state.headline !== headline) {
    announce(headline);
  }
  state.headline = headline;
  return summary;
}

// What a view may do with the page, as long as it is the current one.
function newView() {
  const main = byId("main");
  const view = {
    onSummary: null,
    current: () => state.view === view,
    show: (...children) => {
      if (view.current()) {
        replace(main, ...children);
      }
    },
  };
  return view;
}

async function load() {
  const route = currentRoute();
  const view = newView();
  state.view = view;
  for (const id of ["to-overview", "to-unknown", "to-records", "to-audit"]) {
    if (id === route.tab) {
      byId(id).setAttribute("aria-current", "page");
    } else {
      byId(id).removeAttribute("aria-current");
    }
  }
  try {
    if (state.headline === "") {
      await refreshSummary();
    }
    await route.view(view, route);
  } catch (problem) {
    view.show(heading("This view cannot be shown"), problemNotice(problem, load));
  }
}

async function navigate() {
  byId("dialog").close();
  await load();
  document.querySelector("h1")?.focus();
  window.scrollTo(0, 0);
}

async function poll() {
  const { view } = state;
  try {
    const summary = await refreshSummary();
    await view?.onSummary?.(summary);
  } catch (problem) {
    byId("freshness").textContent = `Not updated: ${problem.title ?? "this page has a bug"}`;
  }
}

// One poll at a time, and none while nobody looks.
let timer = 0;
function schedule() {
  clearTimeout(timer);
  if (document.hidden) {
    byId("freshness").textContent = "Paused";
    return;
  }
  timer = setTimeout(async () => {
    await poll();
    schedule();
  }, PollInterval);
}

byId("skip").addEventListener("click", () => byId("main").focus());
window.addEventListener("hashchange", navigate);
document.addEventListener("visibilitychange", async () => {
  if (!document.hidden) {
    await poll();
  }
  schedule();
});
await load();
schedule();
