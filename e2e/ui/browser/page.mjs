// What the browser's tests share: the browser, pages that tell of their errors, and waiting.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

/** How long anything may take. No result depends on it. */
export const patienceMs = Number(process.env.PATIENCE_MS ?? 120_000);

const { CHROMIUM, SCREENSHOTS } = process.env;

/** launch starts the browser, with a folder of its own that goes with it. */
export function launch() {
  return chromium.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/**
 * open opens a page of its own, runs the function with it, and closes it. An error of a
 * script, a request elsewhere, or anything that the Content-Security-Policy has refused fails
 * the test; so does an answer of an error, unless the test expects one.
 */
export async function open(browser, address, options, f) {
  const { width = 1280, height = 900, dark = false, errorsExpected = false, ...rest } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    ...rest,
  });
  context.setDefaultTimeout(patienceMs);
  const wrong = [];
  try {
    const page = await context.newPage();
    page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    page.on("console", (message) => {
      const failedLoad = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !(errorsExpected && failedLoad)) {
        wrong.push(`console: ${message.text()} ${message.location().url}`);
      }
    });
    const origin = new URL(address).origin;
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== origin) {
        wrong.push(`request elsewhere: ${request.url()}`);
      }
    });
    await page.goto(address);
    await f(page);
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}

/** shoot keeps a picture for people to look at. */
export function shoot(page, name, fullPage = false) {
  return page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage });
}

/** until waits for a condition on the page, and says what it was. */
export async function until(page, what, condition, argument) {
  try {
    await page.waitForFunction(condition, argument, { timeout: patienceMs, polling: 100 });
  } catch (error) {
    throw new Error(`waited in vain until ${what}: ${error.message}`);
  }
}

/** inked gives how many points of the plot's canvas are drawn on, and in how many colours. */
export function inked(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".plot canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Map();
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 200) {
        const colour = `${data[i] >> 4},${data[i + 1] >> 4},${data[i + 2] >> 4}`;
        colours.set(colour, (colours.get(colour) ?? 0) + 1);
      }
    }
    const counts = [...colours.values()];
    return { points: counts.reduce((sum, n) => sum + n, 0), colours: counts.filter((n) => n > 50).length };
  });
}

/** plotted waits until lines are drawn. */
export async function plotted(page) {
  await page.locator(".plot canvas").waitFor();
  await until(page, "the answer is there", () => document.querySelector(".answer")?.getAttribute("aria-busy") === "false");
  const ink = await inked(page);
  assert.ok(ink.points > 500, `only ${ink.points} points are drawn on`);
  return ink;
}

/** sideways gives by how much the page is wider than its window. */
export function sideways(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** query gives the part of the address of a query. */
export function query(dialect, text, more = {}) {
  return `#/query?${new URLSearchParams({ d: dialect, q: text, ...more })}`;
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** barriers gives what axe finds that keeps people out: roles, names, contrast. */
export async function barriers(page) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map((node) => `${id}: ${node.target} ${node.failureSummary}`));
}
