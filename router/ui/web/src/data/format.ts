/** Numbers, sizes and times for people. */

const si = ["", "k", "M", "G", "T", "P", "E"];

/** formatNumber gives a number with at most 4 significant digits: 1.234 M. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return "–";
  }
  if (Number.isNaN(value)) {
    return "NaN";
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? "+Inf" : "−Inf";
  }
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e21)) {
    return value.toExponential(3).replace("-", "−");
  }
  let power = 0;
  let scaled = value;
  while (
    power < si.length - 1 &&
    (power === 0 ? Math.round(Math.abs(scaled)) >= 1e5 : Number(Math.abs(scaled).toPrecision(4)) >= 1000)
  ) {
    scaled /= 1000;
    power++;
  }
  const text = trimZeros(Math.abs(scaled) >= 1000 ? scaled.toFixed(0) : scaled.toPrecision(4)).replace("-", "−");
  return power === 0 ? text : `${text} ${si[power]}`;
}

/** formatRate gives a number with at most 3 significant digits: what changes every moment needs no more. */
export function formatRate(value: number | null | undefined): string {
  return formatNumber(value === null || value === undefined ? value : Number(value.toPrecision(3)));
}

/** formatCount gives a whole number with thin spaces between thousands. */
export function formatCount(value: number): string {
  const text = Math.round(value).toString();
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

function trimZeros(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

const binary = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** formatBytes gives a size: 1.5 GiB. */
export function formatBytes(bytes: number): string {
  let power = 0;
  let scaled = bytes;
  while (power < binary.length - 1 && Math.round(scaled) >= 1024) {
    scaled /= 1024;
    power++;
  }
  const text = power === 0 || scaled >= 100 ? scaled.toFixed(0) : trimZeros(scaled.toPrecision(3));
  return `${text} ${binary[power]}`;
}

/** formatDuration gives a time span in its two largest units: 1 h 20 min. */
export function formatDuration(ms: number): string {
  if (ms < 1) {
    return `${Math.round(ms * 1000)} µs`;
  }
  if (ms < 1000) {
    return `${trimZeros(ms.toPrecision(3))} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 60) {
    return `${trimZeros(seconds.toPrecision(3))} s`;
  }
  const units: [string, number][] = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, size]) => Math.round(seconds) >= size);
  const parts: string[] = [];
  let rest = Math.round(seconds);
  for (const [name, size] of units.slice(first, first + 2)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) {
      parts.push(`${n} ${name}`);
    }
  }
  return parts.join(" ");
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

/** formatTime gives a moment in the browser's time zone: 2026-11-21 18:03:05. */
export function formatTime(ms: number): string {
  const t = new Date(ms);
  const fraction = ms % 1000 === 0 ? "" : `.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")}`;
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}${fraction}`;
}

/** forInput gives a moment as an input of type datetime-local wants it. */
export function forInput(ms: number): string {
  return formatTime(Math.floor(ms / 1000) * 1000).replace(" ", "T");
}
