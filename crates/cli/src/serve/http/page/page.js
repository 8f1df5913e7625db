"use strict";
// Text of keys and clients is foreign: it is only ever set as text.
const COLOURS = { blue: ["#0072b2", "#56b4e9"], orange: ["#c25700", "#ffab5c"], green: ["#00795a", "#3fd0a5"], pink: ["#a8478a", "#f29ad3"] };
const LEVELS = { fine: { seconds: 300, kept: 300, period: 1 }, coarse: { seconds: 3600, kept: 360, period: 10 } };
const SLOW_KEPT = 100, SLOW_SHOWN = 20;
const element = (id) => document.getElementById(id);
const number = (info, name) => Number(info[name] || 0);
const isDark = matchMedia("(prefers-color-scheme: dark)");

function count(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (Math.abs(value) >= size) return trimmed(value / size) + " " + unit;
  return trimmed(value);
}
function bytes(value) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (Math.abs(value) >= size) return trimmed(value / size) + " " + unit;
  return trimmed(value) + " B";
}
function trimmed(value) {
  return String(Math.abs(value) >= 100 ? Math.round(value) : Math.abs(value) >= 10 ? Math.round(value * 10) / 10 : Math.round(value * 100) / 100);
}
function micros(value) {
  if (value >= 1e6) return trimmed(value / 1e6) + " s";
  return value >= 1e3 ? trimmed(value / 1e3) + " ms" : trimmed(value) + " µs";
}
const percent = (value) => trimmed(value) + " %";
const perSecond = (print) => (value) => print(value) + "/s";
function duration(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= 2 * size) return Math.floor(seconds / size) + " " + unit;
  return Math.floor(seconds) + " s";
}
function parts(value) { return Object.fromEntries(value.split(",").map((part) => part.split("="))); }
function keysOf(info) {
  return Object.keys(info).filter((name) => /^db\d+$/.test(name)).reduce((sum, name) => sum + Number(parts(info[name]).keys), 0);
}

// A chart: title, how its values are printed, its lines (label, figure or function of a sample, colour), and whether it is shown.
const hasAof = (info) => info.aof_enabled === "1";
const hasReplicas = (info) => number(info, "connected_slaves") > 0;
const isReplica = (info) => info.role === "slave";
let savesByItself = false;
const snapshots = (info) => savesByItself || number(info, "rdb_saves") > 0 || info.rdb_bgsave_in_progress === "1";
const hitShare = (sample) => (sample.hits + sample.misses > 0 ? 100 * sample.hits / (sample.hits + sample.misses) : null);
const CHARTS = [
  { title: "Commands per second", print: count, lines: [["commands", "commands", "blue"], ["errors", "errors", "orange"]] },
  { title: "Execution time of a command", print: micros, isLog: true,
    lines: [["median", "p50", "blue"], ["99 %", "p99", "green"], ["99.9 %", "p999", "pink"], ["longest", "longest", "orange"]] },
  { title: "CPU, of one core", print: percent,
    lines: [["program", (sample) => scaled(sample.cpu_user, 100), "blue"], ["kernel", (sample) => scaled(sample.cpu_system, 100), "orange"]] },
  { title: "Memory", print: bytes, isBytes: true, lines: [["used", "used", "blue"], ["resident", "resident", "orange"]] },
  { title: "Network per second", print: bytes, isBytes: true, lines: [["received", "received", "blue"], ["sent", "sent", "orange"]] },
  { title: "Clients", print: count, lines: [["connected", "clients", "blue"], ["blocked", "blocked", "orange"], ["new per second", "connections", "green"]] },
  { title: "Keys", print: count, lines: [["keys", "keys", "blue"], ["with a time to live", "expiring", "orange"]] },
  { title: "Reads that found their key", print: percent, top: 100, lines: [["hit rate", hitShare, "blue"]] },
  { title: "Keys removed per second", print: count, lines: [["expired", "expired", "blue"], ["evicted", "evicted", "orange"]] },
  { title: "Changes since the last snapshot", print: count, when: snapshots, lines: [["changes", "unsaved", "blue"]] },
  { title: "Append-only file", print: bytes, isBytes: true, when: hasAof, lines: [["size", "aof_bytes", "blue"]] },
  { title: "Replication stream per second", print: bytes, isBytes: true, when: (info) => hasReplicas(info) || isReplica(info), lines: [["stream", "stream", "blue"]] },
  { title: "Slowest replica is behind by", print: bytes, isBytes: true, when: hasReplicas, lines: [["behind", "replica_behind", "blue"], ["waits in memory", "journal", "orange"]] },
  { title: "Seconds since the primary was heard", print: count, when: isReplica, lines: [["seconds", "primary_silent", "blue"]] },
];
function scaled(value, factor) { return value === null ? null : value * factor; }

let shownLevel = "fine";
const samples = { fine: [], coarse: [] };
const colour = (name) => COLOURS[name][isDark.matches ? 1 : 0];
const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const charts = new Map();

function valuesOf(line, rows) {
  const read = typeof line[1] === "function" ? line[1] : (sample) => sample[line[1]];
  return rows.map(read);
}
// One time axis for all: the whole of what is shown, or what there is if that is less, but a minute at least.
function range() {
  const { seconds, period } = LEVELS[shownLevel], rows = samples[shownLevel];
  const last = rows.length ? rows[rows.length - 1].at : Date.now() / 1000;
  const first = rows.length ? rows[0].at : last;
  return [Math.max(last - seconds, Math.min(first, last - 60 * period)), last];
}
function decades(least, most) {
  const first = Math.round(Math.log10(least)), last = Math.round(Math.log10(most)), step = last - first > 4 ? 2 : 1;
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, at) => 10 ** (first + at * step));
}
function logTop(most) { return 10 ** Math.ceil(Math.log10(Math.max(most, 1))); }
function build(chart, holder) {
  const axis = { stroke: () => styled("--faint"), grid: { stroke: () => styled("--grid"), width: 1 }, ticks: { stroke: () => styled("--grid"), width: 1, size: 4 }, font: "11px system-ui, sans-serif" };
  const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
  const binary = [0, 1, 2, 3, 4].flatMap((power) => steps.map((step) => step * 1024 ** power));
  const options = {
    width: holder.clientWidth - 24, height: 170, padding: [8, 22, 0, 0], cursor: { y: false, drag: { x: false, y: false }, sync: { key: "time" } },
    legend: { live: true },
    scales: {
      x: { time: true, range: () => range() },
      y: chart.isLog
        ? { distr: 3, range: (_, least, most) => [Math.min(0.1, 10 ** Math.floor(Math.log10(least || 0.1))), logTop(most || 1)] }
        : { range: (_, least, most) => [0, chart.top || (most > 0 ? most * 1.08 : 1)] },
    },
    axes: [
      { ...axis, space: 64, size: 30, values: (_, places) => places.map(clock) },
      { ...axis, size: 62, ...(chart.isLog ? { splits: (_, __, least, most) => decades(least, most), filter: (_, places) => places } : {}), values: (_, places) => places.map((place) => (place === null ? "" : chart.print(place))), ...(chart.isBytes ? { incrs: binary } : {}) },
    ],
    series: [
      { label: "at", value: (_, place) => (place === null ? "" : clock(place, true)) },
      ...chart.lines.map((line) => ({ label: line[0], stroke: () => colour(line[2]), width: 1.5, points: { show: false }, spanGaps: false,
        value: (plot, value, series, at) => { const shown = at === null ? lastOf(plot.data[series]) : value; return shown === null || shown === undefined ? "–" : chart.print(shown); } })),
    ],
  };
  return new uPlot(options, dataOf(chart), holder);
}
function lastOf(values) { return values.length ? values[values.length - 1] : null; }
function clock(seconds, exactly) {
  const date = new Date(seconds * 1000), two = (value) => String(value).padStart(2, "0");
  const text = two(date.getHours()) + ":" + two(date.getMinutes());
  return exactly || date.getSeconds() ? text + ":" + two(date.getSeconds()) : text;
}
function dataOf(chart) {
  const rows = samples[shownLevel], positive = (value) => (chart.isLog && !(value > 0) ? null : value);
  return [rows.map((sample) => sample.at), ...chart.lines.map((line) => valuesOf(line, rows).map(positive))];
}
function draw(info) {
  for (const chart of CHARTS) {
    const isShown = !chart.when || chart.when(info), known = charts.get(chart);
    if (isShown && !known) {
      const holder = document.createElement("div");
      holder.className = "chart";
      holder.appendChild(document.createElement("h2")).textContent = chart.title;
      const next = CHARTS.slice(CHARTS.indexOf(chart) + 1).map((other) => charts.get(other)).find((other) => other);
      element("charts").insertBefore(holder, next ? next.holder : null);
      charts.set(chart, { holder, plot: build(chart, holder) });
    } else if (!isShown && known) {
      known.plot.destroy();
      known.holder.remove();
      charts.delete(chart);
    } else if (known) known.plot.setData(dataOf(chart));
  }
}
function redraw() { for (const [chart, { plot }] of charts) plot.setData(dataOf(chart)); }
new ResizeObserver(() => {
  for (const { plot, holder } of charts.values())
    if (holder.clientWidth - 24 !== plot.width) plot.setSize({ width: holder.clientWidth - 24, height: 170 });
}).observe(element("charts"));
isDark.addEventListener("change", redraw);
for (const level of Object.keys(LEVELS)) element(level).addEventListener("click", () => choose(level));
function choose(level) {
  shownLevel = level;
  for (const name of Object.keys(LEVELS)) element(name).setAttribute("aria-pressed", String(name === level));
  // A bookmark shows what was chosen.
  history.replaceState(null, "", level === "coarse" ? "#hour" : location.pathname);
  redraw();
}

// A row's cells are text, or [text, class].
function row(cells, kind) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const [text, style] = Array.isArray(cell) ? cell : [cell, ""];
    const made = line.appendChild(document.createElement(kind || "td"));
    made.textContent = text;
    if (style) made.className = style;
    if (style === "long" && !kind) made.title = text;
  }
  return line;
}
// A column that says nothing in any row is left out.
function table(id, head, rows, nothing) {
  const says = head.map((_, at) => rows.length === 0 || rows.some((cells) => cells[at] !== ""));
  head = head.filter((_, at) => says[at]);
  rows = rows.map((cells) => cells.filter((_, at) => says[at]));
  const styles = head.map((cell) => (Array.isArray(cell) ? cell[1] : ""));
  const empty = row([[nothing, "empty"]]);
  empty.firstChild.colSpan = head.length;
  const lines = rows.map((cells) => row(cells.map((cell, at) => [cell, styles[at]])));
  element(id).replaceChildren(row(head, "th"), ...(lines.length ? lines : [empty]));
}
const right = (text) => [text, "number"];

function facts(info) {
  const last = samples.fine[samples.fine.length - 1];
  const show = (value, print) => (value === null || value === undefined ? "–" : print(value));
  const limit = number(info, "maxmemory");
  const list = [
    ["Commands", show(last && last.commands, perSecond(count))],
    ["99 % within", show(last && last.p99, micros)],
    ["Clients", info.connected_clients + (number(info, "blocked_clients") ? ", " + info.blocked_clients + " blocked" : "")],
    ["Memory used", bytes(number(info, "used_memory")) + (limit ? " of " + bytes(limit) : "")],
    ["Keys", count(keysOf(info))],
    ["Hit rate", show(last && hitShare(last), percent)],
    ["Received", show(last && last.received, perSecond(bytes))],
    ["Sent", show(last && last.sent, perSecond(bytes))],
    ["Errors", show(last && last.errors, perSecond(count))],
  ];
  if (info.rdb_bgsave_in_progress === "1") list.push(["Snapshot", "being written"]);
  else if (snapshots(info)) list.push(["Last snapshot", info.rdb_last_bgsave_status === "ok" ? duration(Date.now() / 1000 - number(info, "rdb_last_save_time")) + " ago" : "failed", info.rdb_last_bgsave_status !== "ok"]);
  if (hasAof(info)) list.push(["Append-only file", info.aof_last_write_status !== "ok" ? "cannot be written" : info.aof_rewrite_in_progress === "1" ? "being rewritten" : bytes(number(info, "aof_current_size")), info.aof_last_write_status !== "ok"]);
  if (hasReplicas(info)) list.push(["Replicas", info.connected_slaves]);
  if (isReplica(info)) list.push(["Primary " + info.master_host + ":" + info.master_port, info.master_link_status === "up" ? "connected" : "not connected", info.master_link_status !== "up"]);
  if (info.cluster_state) list.push(["Cluster of " + info.cluster_known_nodes + " nodes", (info.cluster_state === "ok" ? info.cluster_size + " shards, " : "down, ") + info.cluster_slots_ok + " of 16384 slots", info.cluster_state !== "ok"]);
  element("facts").replaceChildren(...list.map(([name, value, isBad]) => {
    const fact = document.createElement("div");
    fact.className = isBad ? "fact bad" : "fact";
    fact.appendChild(document.createElement("span")).textContent = name;
    fact.appendChild(document.createElement("b")).textContent = value;
    return fact;
  }));
}

let before = null;
function commands(now, passed) {
  const rows = Object.keys(now).filter((name) => name.startsWith("cmdstat_")).map((name) => {
    const own = parts(now[name]), then = before && before.info[name] ? parts(before.info[name]) : null;
    const old = then && Number(then.calls) <= Number(own.calls) ? then : { calls: passed ? 0 : own.calls };
    const times = parts(now["latency_percentiles_usec_" + name.slice(8)] || "p50=");
    return { name: name.slice(8), own, times, rate: passed ? (own.calls - old.calls) / passed : 0 };
  });
  rows.sort((one, other) => other.rate - one.rate || other.own.calls - one.own.calls);
  const time = (value) => (value === undefined || value === "" ? "–" : micros(Number(value)));
  table("commands", ["command", right("per second"), right("calls"), right("mean"), right("median"), right("99 %"), right("99.9 %"), right("failed"), right("refused")],
    rows.slice(0, 20).map(({ name, own, times, rate }) => [name.replace("|", " "), count(rate), count(Number(own.calls)), Number(own.calls) ? time(own.usec_per_call) : "–",
      time(times.p50), time(times.p99), time(times["p99.9"]), count(Number(own.failed_calls)), count(Number(own.rejected_calls))]),
    "no command has been executed");
}
// Of what was received in one piece, on average since the last look; a reply is held back only where there is an AOF.
const PHASES = [
  ["receiving and parsing", "read", "total_reads_processed"],
  ["waiting for others that came at the same time", "wait", "total_reads_processed"],
  ["executing", "execute", "total_reads_processed"],
  ["waiting for the append-only file", "sync", "phase_replies_held"],
  ["answering", "write", "total_reads_processed"],
];
function phases(now) {
  const grown = (name) => Math.max(0, number(now, name) - (before ? number(before.info, name) : number(now, name)));
  const shown = PHASES.filter(([, name]) => name !== "sync" || hasAof(now));
  table("phases", [["phase", "wrapped"], right("mean"), right("receives or replies")], shown.map(([about, name, by]) =>
    [about, grown(by) ? micros(grown("phase_" + name + "_usec") / grown(by)) : "–", count(grown(by))]), "");
}

const logs = { slow: new Map(), large_requests: new Map(), large_replies: new Map() };
function keep(now) {
  for (const [name, kept] of Object.entries(logs)) {
    for (const entry of now[name] || []) kept.set(entry.id, entry);
    for (const id of [...kept.keys()].sort((one, other) => one - other).slice(0, -SLOW_KEPT)) kept.delete(id);
  }
}
const newest = (kept) => [...kept.values()].sort((one, other) => other.at - one.at || other.id - one.id);
const when = (entry) => clock(entry.at, true);
function slow(now) {
  if (!now.slow) return table("slow", ["command"], [], "your user may not read the slow log");
  const rows = newest(logs.slow);
  element("slow_note").textContent = rows.length > SLOW_SHOWN ? "(the last " + SLOW_SHOWN + " of " + rows.length + ")" : "";
  table("slow", ["at", right("took"), ["command", "long"], "client"], rows.slice(0, SLOW_SHOWN).map((entry) => [when(entry), micros(entry.much), entry.words.join(" "), entry.client]), "none");
}
function large() {
  const rows = [...newest(logs.large_requests).map((entry) => [entry, "request"]), ...newest(logs.large_replies).map((entry) => [entry, "reply"])];
  rows.sort((one, other) => other[0].at - one[0].at);
  table("large", ["at", right("size"), "of", ["command", "long"]], rows.slice(0, 10).map(([entry, kind]) => [when(entry), bytes(entry.much), kind, entry.words.join(" ")]), "none");
}

const FLAGS = { S: "replica", M: "primary", O: "monitor", P: "subscriber", x: "in MULTI", b: "blocked", t: "tracks keys", c: "closing", U: "Unix socket", e: "never evicted" };
async function clients() {
  const told = await get("clients");
  element("clients_note").textContent = told.all > told.clients.length ? "(" + told.clients.length + " with most memory of " + count(told.all) + ")" : "(" + told.all + ")";
  const states = (flags) => [...flags].map((flag) => FLAGS[flag]).filter((word) => word).join(", ");
  const library = (client) => [client["lib-name"], client["lib-ver"]].filter((word) => word).join(" ");
  table("clients", ["address", "name", "user", "library", right("database"), right("connected"), right("idle"), "last command", right("memory"), right("owed"), "state"],
    told.clients.map((client) => [client.addr, client.name || "", client.user, library(client), client.db, duration(Number(client.age)), duration(Number(client.idle)),
      client.cmd.replace("|", " "), bytes(Number(client["tot-mem"])), bytes(Number(client.omem)), states(client.flags)]), "no client is connected");
}

// A step of a walk through all keys with each look. What the walk before has found stays until it was met again, or was not.
const walk = { database: 0, cursor: "0", seen: 0, round: 0, found: new Map(), more: [] };
async function step(info) {
  const told = await get("keys?database=" + walk.database + "&cursor=" + walk.cursor);
  walk.seen += told.seen;
  walk.cursor = told.cursor;
  for (const { key, bytes: size } of told.keys) walk.found.set(walk.database + " " + key, { key, size, database: walk.database, round: walk.round });
  walk.found = new Map([...walk.found].sort((one, other) => other[1].size - one[1].size).slice(0, 20));
  const all = keysOf(info);
  element("walked").textContent = walk.round ? "(walk " + (walk.round + 1) + ")" : "(" + count(Math.min(walk.seen, all)) + " of " + count(all) + " looked at)";
  table("large_keys", [["key", "long"], right("database"), right("about")], [...walk.found.values()].slice(0, 10).map((one) => [one.key, one.database, bytes(one.size)]), "no keys");
  if (walk.cursor !== "0") return;
  if (walk.more.length === 0) {
    walk.found = new Map([...walk.found].filter(([, one]) => one.round === walk.round));
    walk.more = Object.keys(info).filter((name) => /^db\d+$/.test(name)).map((name) => Number(name.slice(2)));
    walk.round += 1;
    walk.seen = 0;
  }
  walk.database = walk.more.shift() || 0;
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
function take(past) {
  for (const [level, { kept }] of Object.entries(LEVELS)) {
    for (const [at, ...values] of past[level])
      samples[level].push(Object.fromEntries([["at", at], ...past.figures.map((name, index) => [name, values[index]])]));
    samples[level].splice(0, Math.max(0, samples[level].length - kept));
  }
}
function forget() {
  Object.values(samples).forEach((rows) => rows.splice(0));
  Object.values(logs).forEach((kept) => kept.clear());
  before = null;
}
const lastAt = (level) => (samples[level].length ? samples[level][samples[level].length - 1].at : 0);
async function look() {
  const { now, history: past } = await get("status?fine=" + lastAt("fine") + "&coarse=" + lastAt("coarse"));
  const info = now.info;
  // Another process has other figures; what came with this answer was asked for by the old one's times.
  if (before && before.info.run_id !== info.run_id) return forget();
  savesByItself = Boolean(now.save);
  take(past);
  keep(now);
  const at = performance.now() / 1000;
  element("who").textContent = [info.sleeve_version, info.role === "slave" ? "replica" : "primary", "port " + info.tcp_port, info.workers + (info.workers === "1" ? " worker" : " workers"), "up " + duration(number(info, "uptime_in_seconds"))].join(" · ");
  document.title = "Sleeve :" + info.tcp_port;
  facts(info);
  draw(info);
  commands(info, before ? at - before.at : 0);
  phases(info);
  table("hot", [["key", "long"], right("share of all uses")], (now.hot_keys || []).map((hot) => [hot.key, percent(100 * hot.share)]), now.hot_keys ? "no key is used" : "your user may not know");
  slow(now);
  large();
  before = { at, info };
  element("state").textContent = info.loading === "1" ? "loading data" : "";
  return info;
}
let turn = 0;
async function go() {
  try {
    const info = await look();
    const said = (id) => (error) => { element(id).textContent = "(" + error.message + ")"; };
    if (info && !document.hidden) {
      await step(info).catch(said("walked"));
      if (turn % 3 === 0) await clients().catch(said("clients_note"));
      turn += 1;
    }
  } catch (error) {
    element("state").textContent = error instanceof TypeError ? "the server does not answer" : error.message;
  }
  setTimeout(go, document.hidden ? 5000 : 1000);
}
choose(location.hash === "#hour" ? "coarse" : "fine");
go();
