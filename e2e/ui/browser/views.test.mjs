// Every view, on a server with three nodes in its process.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { barriers, inked, launch, open, plotted, query, shoot, sideways, until } from "./page.mjs";

const { PAGE, PREFIXED } = process.env;
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const editor = "textarea";
const names = (page) => page.locator(".legend .name").allTextContents();

test("begins with metrics, and a click asks for one", () =>
  open(browser, PAGE, {}, async (page) => {
    await page.getByRole("button", { name: "cpu_percent" }).click();
    await plotted(page);
    assert.equal((await names(page)).length, 6);
    assert.match(page.url(), /q=cpu_percent/);
  }));

for (const [dialect, text, legend] of [
  ["promql", "max by (rack) (cpu_percent)", ['{rack="r0"}', '{rack="r1"}']],
  ["opentsdb", "none:1m-avg:cpu_percent{host=literal_or(web-1|web-2)}", ['cpu_percent{host="web-1", rack="r0"}', 'cpu_percent{host="web-2", rack="r1"}']],
  ["influxql", `SELECT mean("value") FROM "cpu_percent" WHERE $timeFilter GROUP BY time($__interval), "rack"`, ['cpu_percent.mean{rack="r0"}', 'cpu_percent.mean{rack="r1"}']],
]) {
  test(`draws, lists and shows an answer of ${dialect}`, () =>
    open(browser, PAGE + query(dialect, text), {}, async (page) => {
      const ink = await plotted(page);
      assert.ok(ink.colours >= 2, `${ink.colours} colours`);
      assert.deepEqual(await names(page), legend);
      await shoot(page, `query-${dialect}`);
      await page.getByRole("button", { name: "Table" }).click();
      const cells = await page.locator("table.series tbody tr").first().locator("td").allTextContents();
      assert.equal(cells.length, 5);
      assert.ok(cells.slice(0, 4).every((cell) => Number(cell) > 0 && Number(cell) < 100), `${cells}`);
      await page.locator("table.series tbody button").first().click();
      await page.locator(".points li").first().waitFor();
      await shoot(page, `table-${dialect}`);
      await page.getByRole("button", { name: "Raw answer" }).click();
      assert.match(await page.locator("pre.raw").textContent(), /rack|host/);
      // The address has all of it.
      await page.reload();
      assert.match(await page.locator("pre.raw").textContent(), /rack|host/);
      assert.equal(await page.locator(editor).inputValue(), text);
    }));
}

test("zooms where it is dragged, and out again", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    await plotted(page);
    const box = await page.locator(".plot .u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 100);
    await until(page, "the legend says for when its values are", () => /^\d{4}-/.test(document.querySelector(".legend .note").textContent));
    await shoot(page, "query-hover");
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + 120, { steps: 5 });
    await page.mouse.up();
    await page.waitForURL(/from=\d+&to=\d+/);
    const range = () => {
      const params = new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
      return params.get("to") - params.get("from");
    };
    const zoomed = range();
    assert.ok(zoomed > 3600e3 * 0.15 && zoomed < 3600e3 * 0.25, `${zoomed} ms`);
    await plotted(page);
    await page.getByRole("button", { name: "Zoom out" }).click();
    await until(page, "the range is wider", (was) => {
      const params = new URLSearchParams(location.hash.split("?")[1]);
      return params.get("to") - params.get("from") > 1.5 * was;
    }, zoomed);
    await page.goBack();
    assert.equal(range(), zoomed);
  }));

test("hides lines, and shows one alone", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    const all = await plotted(page);
    const first = page.locator(".legend tbody button").first();
    await first.click({ modifiers: ["Alt"] });
    await until(page, "five are hidden", () => document.querySelectorAll('.legend [aria-pressed="false"]').length === 5);
    const one = await inked(page);
    assert.ok(one.points < all.points && one.points > 500, `${one.points} of ${all.points}`);
    await first.click({ modifiers: ["Alt"] });
    await until(page, "none is hidden", () => document.querySelectorAll('.legend [aria-pressed="false"]').length === 0);
    // What is hidden stays so when the query is run again, and not when another one is.
    await first.click();
    await page.getByRole("button", { name: "Run" }).click();
    await plotted(page);
    assert.equal(await page.locator('.legend [aria-pressed="false"]').count(), 1);
    await page.locator(editor).fill("max by (rack) (cpu_percent)");
    await page.getByRole("button", { name: "Run" }).click();
    await until(page, "two lines are named", () => document.querySelectorAll(".legend .name").length === 2);
    await until(page, "none is hidden", () => document.querySelectorAll('.legend [aria-pressed="false"]').length === 0);
  }));

test("runs what stands in the editor, whatever is pressed, and keeps it", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    await plotted(page);
    await page.locator(editor).fill("max(cpu_percent)");
    await page.getByRole("button", { name: "15m", exact: true }).click();
    await page.waitForURL(/q=max/);
    await until(page, "one line is named", () => document.querySelectorAll(".legend .name").length === 1);
    // Another language and another view leave the text where it was.
    await page.getByRole("button", { name: "InfluxQL" }).click();
    await until(page, "the editor is empty", () => document.querySelector("textarea").value === "");
    await page.locator(editor).fill("SHOW MEASUREMENTS");
    await page.getByRole("button", { name: "PromQL" }).click();
    await until(page, "the text is back", () => document.querySelector("textarea").value === "max(cpu_percent)");
    await page.getByRole("button", { name: "Run" }).click();
    await plotted(page);
    await page.getByRole("link", { name: "Cluster" }).click();
    await until(page, "three nodes are drawn", () => document.querySelectorAll(".node").length === 3);
    await page.getByRole("link", { name: "Query", exact: true }).click();
    await plotted(page);
    assert.equal(await page.locator(editor).inputValue(), "max(cpu_percent)");
    assert.match(page.url(), /from=15m/);
  }));

test("has the values at the pointer, and a legend with figures that sort it", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    await plotted(page);
    const box = await page.locator(".plot .u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 100);
    await page.locator(".tip li").first().waitFor();
    const told = await page.locator(".tip li").evaluateAll((all) =>
      Object.fromEntries(all.map((item) => [item.querySelector(".name").textContent, item.querySelector("b").textContent])));
    assert.equal(Object.keys(told).length, 6);
    assert.equal(await page.locator(".tip .nearest").count(), 1);
    const listed = await page.locator(".legend tbody tr").evaluateAll((all) =>
      Object.fromEntries(all.map((row) => [row.querySelector(".name").textContent, row.querySelector(".last").textContent])));
    assert.deepEqual(told, listed);
    assert.match(Object.values(told)[0], /^[\d.]+ %$/, "the unit is in the metric's name");
    await page.mouse.move(5, 5);
    await page.locator(".tip").waitFor({ state: "detached" });
    await page.getByRole("button", { name: /^Max/ }).click();
    const greatest = (await page.locator(".legend tbody .max").allTextContents()).map(Number.parseFloat);
    assert.deepEqual(greatest, greatest.toSorted((a, b) => b - a));
  }));

test("stacks lines, has a logarithmic axis, and the end of the range alone", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    const plain = await plotted(page);
    await page.getByRole("button", { name: "Stacked" }).click();
    await page.waitForURL(/draw=stacked/);
    const stacked = await inked(page);
    assert.notDeepEqual(stacked, plain);
    await shoot(page, "query-stacked");
    await page.getByRole("button", { name: "Log axis" }).click();
    await page.waitForURL(/draw=log/);
    await plotted(page);
    await page.getByRole("button", { name: "Instant" }).click();
    await page.locator("table.series").waitFor();
    await until(page, "each series has one point", () =>
      [...document.querySelectorAll("table.series tbody tr")].map((row) => row.lastElementChild.textContent).join() === "1,1,1,1,1,1");
    await page.getByRole("button", { name: "Range", exact: true }).click();
    await page.getByRole("combobox", { name: "Time between points" }).selectOption("5m");
    await until(page, "there are few points", () => /6 series · (72|78) points/.test(document.querySelector(".answer [role=status]").textContent));
  }));

test("takes ranges as people write them", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), {}, async (page) => {
    await plotted(page);
    await page.getByRole("button", { name: "From … to" }).click();
    await page.getByLabel("From", { exact: true }).fill("now-1d");
    await page.getByLabel("To", { exact: true }).fill("now-2d");
    assert.equal(await page.getByRole("button", { name: "Use" }).isDisabled(), true);
    await page.getByLabel("From", { exact: true }).fill("now-100m");
    await page.getByLabel("To", { exact: true }).fill("now");
    await page.getByRole("button", { name: "Use" }).click();
    await page.waitForURL(/from=100m/);
    await plotted(page);
  }));

test("gives answers as files, and plans in each language", () =>
  open(browser, PAGE + query("promql", "max by (rack) (cpu_percent)"), {}, async (page) => {
    await plotted(page);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "CSV" }).click();
    const lines = readFileSync(await (await downloading).path(), "utf8").split("\n");
    assert.equal(lines[0], 'time,"{rack=""r0""}","{rack=""r1""}"');
    assert.match(lines[1], /^\d{4}-\d\d-\d\dT[\d:.]+Z,[\d.]+,[\d.]+$/);
    for (const [dialect, text] of [
      ["promql", "max by (rack) (cpu_percent)"],
      ["opentsdb", "sum:1m-avg:cpu_percent{host=*}"],
      ["influxql", `SELECT mean("value") FROM "cpu_percent" WHERE $timeFilter GROUP BY time($__interval)`],
    ]) {
      await page.goto(PAGE + query(dialect, text, { show: "plan" }));
      await until(page, `there is a plan of ${dialect}`, () => /cpu_percent/.test(document.querySelector(".plan tbody")?.textContent));
      assert.match(await page.locator(".plan dl").textContent(), /6 series/);
    }
    await shoot(page, "query-plan");
  }));

test("shows rules and alerts, and asks what they ask", () =>
  open(browser, `${PAGE}#/alerts`, {}, async (page) => {
    await until(page, "an alert fires", () => document.querySelectorAll(".rules tbody tr").length === 6);
    assert.deepEqual(await page.locator(".rules .state").allTextContents(), ["recording", "firing", "failing"]);
    assert.match(await page.locator(".rules td small").first().textContent(), /^summary: web-\d is at/);
    await shoot(page, "alerts");
    await page.getByRole("button", { name: /^Failing/ }).click();
    await until(page, "one rule is left", () => document.querySelectorAll(".rules > li").length === 1);
    await page.getByRole("button", { name: /^All/ }).click();
    await page.getByRole("button", { name: "Query", exact: true }).first().click();
    await plotted(page);
    assert.equal(await page.locator(editor).inputValue(), "avg by (rack) (cpu_percent)");
  }));

test("says what is wrong, at its place", () =>
  open(browser, PAGE + query("promql", "sum(cpu_percent"), { errorsExpected: true }, async (page) => {
    const alert = page.getByRole("alert");
    assert.match(await alert.textContent(), /parse error/);
    await page.locator(".place").waitFor();
    assert.equal(await page.locator(editor).getAttribute("aria-invalid"), "true");
    await shoot(page, "query-error");
    await page.locator(editor).fill("sum(cpu_percent)");
    await page.keyboard.press("Control+Enter");
    await plotted(page);
    assert.equal(await alert.count(), 0);
  }));

test("completes metrics, tags, values and words with keys alone", () =>
  open(browser, PAGE, {}, async (page) => {
    await page.getByRole("button", { name: "cpu_percent" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("sum by (rack) (cpu_p");
    const chosen = (text) => page.locator('[role=option][aria-selected="true"]', { hasText: text }).waitFor();
    await chosen("cpu_percent");
    await page.keyboard.press("Tab");
    await page.keyboard.type("{ho");
    await chosen("host");
    await page.keyboard.press("Tab");
    await page.keyboard.type('="web-');
    await chosen("web-1");
    await shoot(page, "query-completion");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(editor).inputValue(), 'sum by (rack) (cpu_percent{host="web-2"');
    await page.keyboard.type("})");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Enter");
    await plotted(page);
    assert.deepEqual(await names(page), ['{rack="r1"}']);
    // It is remembered.
    await page.getByRole("button", { name: "History" }).click();
    await page.getByRole("button", { name: /promql sum by/ }).waitFor();
  }));

test("explores metrics and tags, and asks for a value that is pressed", () =>
  open(browser, `${PAGE}#/explore`, {}, async (page) => {
    await page.getByRole("searchbox").fill("R_TEMP");
    const metric = page.locator(".names button");
    await until(page, "one metric is left, with its number of series", () => {
      const all = [...document.querySelectorAll(".names .number")];
      return all.length === 1 && all[0].textContent === "300";
    });
    await metric.click();
    const tags = page.locator(".tag h3");
    await tags.first().waitFor();
    assert.deepEqual(await tags.allTextContents(), ["unit300 values", "room30 values"]);
    await until(page, "values are counted", () => !document.querySelector(".metric").textContent.includes("…"));
    await shoot(page, "explore");
    // Of a tag with many values more can be seen, and those that begin somehow.
    await page.locator(".tag").first().getByRole("button", { name: "More" }).click();
    await until(page, "a hundred are listed", () => document.querySelectorAll(".tag")[0].querySelectorAll(".chips small").length === 100);
    await page.getByLabel("Values of unit that begin with").fill("u29");
    await until(page, "those are listed", () => [...document.querySelectorAll(".tag")[0].querySelectorAll(".chips .mono")].map((e) => e.textContent).join() === "u29,u290,u291,u292,u293,u294,u295,u296,u297,u298,u299");
    await page.getByRole("button", { name: /^room-0\b/ }).click();
    await until(page, "ten series are there", () => document.querySelectorAll(".legend tbody tr").length === 10);
    assert.match(page.url(), /room-0/);
  }));

test("lists metrics by their numbers of series", () =>
  open(browser, `${PAGE}#/explore`, {}, async (page) => {
    await page.getByRole("button", { name: "Most series first" }).click();
    await until(page, "the largest is the first", () => document.querySelector(".names .name")?.textContent === "sensor_temperature");
    const numbers = (await page.locator(".names .number").allTextContents()).map(Number);
    assert.deepEqual(numbers, numbers.toSorted((a, b) => b - a));
    await page.locator(".metrics .note", { hasText: /series in all/ }).waitFor();
  }));

test("draws the cluster: three nodes with their shards, all well", () =>
  open(browser, `${PAGE}#/cluster`, { height: 1000 }, async (page) => {
    await until(page, "three nodes are drawn", () => document.querySelectorAll(".node").length === 3);
    const wanted = { lead: 128, copy: 128, witness: 128, silent: 0, headless: 0 };
    await until(page, "all replicas are where they should be", (all) =>
      Object.entries(all).every(([state, n]) =>
        n === [...document.querySelectorAll(`.node .cell.${state}`)].reduce((sum, path) => sum + Number(path.dataset.count), 0)), wanted);
    await page.locator(".notice.good", { hasText: "All is well" }).waitFor();
    // Rates need two looks.
    await until(page, "there is a rate of points", () => !document.querySelector(".figure .value").textContent.startsWith("–"));
    await fetch(`${PAGE}write`, { method: "POST", body: Array.from({ length: 20000 }, (_, i) => `load,n=x value=${i} ${i + 1}000000000`).join("\n") });
    await until(page, "points come in", () => !document.querySelector(".figure .value").textContent.startsWith("0/"));
    await page.locator(".cells").first().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    await until(page, "the shard is told of", () => document.querySelector(".facts").textContent.startsWith("Shard 16 "));
    assert.equal(await page.locator(".ring").count(), 3);
    await shoot(page, "cluster");
  }));

test("lists slow queries, and opens one again", () =>
  open(browser, PAGE + query("promql", "count(cpu_percent)"), {}, async (page) => {
    await plotted(page);
    await page.keyboard.press("g");
    await page.keyboard.press("s");
    const book = page.locator(".book li", { hasText: "count(cpu_percent)" });
    await book.first().waitFor();
    await shoot(page, "queries");
    await page.getByRole("button", { name: "Newest" }).click();
    await page.waitForURL(/sort=newest/);
    await book.first().getByRole("button", { name: "Open" }).click();
    await plotted(page);
    assert.match(page.url(), /#\/query/);
  }));

test("opens a slow query of any language as it was written, in its range of time", async () => {
  for (const [dialect, text] of [
    ["opentsdb", "max:1m-avg:cpu_percent{host=literal_or(web-1|web-2)}"],
    ["influxql", `SELECT max("value") FROM "cpu_percent" WHERE $timeFilter GROUP BY time($__interval)`],
  ]) {
    await open(browser, PAGE + query(dialect, text), {}, async (page) => {
      await plotted(page);
      await page.goto(`${PAGE}#/queries?sort=newest`);
      await page.locator(".book li", { hasText: dialect }).first().getByRole("button", { name: "Open" }).click();
      await plotted(page);
      assert.equal(await page.locator(editor).inputValue(), text.replace("$__interval", "10s"));
      assert.match(page.url(), /from=\d+&to=\d+/);
    });
  }
});

test("what is known stays while the server does not answer", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), { errorsExpected: true }, async (page) => {
    await plotted(page);
    await page.route("**/api/v1/query_range*", (route) => route.abort());
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("alert").filter({ hasText: "The server does not answer." }).waitFor();
    await page.getByText("What is shown is what was known before").waitFor();
    assert.equal((await names(page)).length, 6);
    await shoot(page, "query-cut-off");
    await page.unroute("**/api/v1/query_range*");
    await page.getByRole("button", { name: "Run" }).click();
    await until(page, "the error is gone", () => document.querySelector("[role=alert]") === null);
    await page.goto(`${PAGE}#/cluster`);
    await until(page, "three nodes are drawn", () => document.querySelectorAll(".node").length === 3);
    await page.route("**/ui/api/**", (route) => route.abort());
    await page.getByRole("alert").filter({ hasText: "What is shown is what was known before." }).waitFor();
    assert.equal(await page.locator(".node").count(), 3);
  }));

test("has rates as soon as the cluster is looked at", async () => {
  // The router has kept two moments at least, with nobody looking.
  for (let moments = 0; moments < 3; ) {
    moments = (await (await fetch(`${PAGE}ui/api/history`)).json()).moments.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  await open(browser, PAGE, {}, async (page) => {
    let looks = 0;
    await page.route("**/ui/api/status", (route) => (looks++ === 0 ? route.continue() : undefined));
    await page.getByRole("link", { name: "Cluster" }).click();
    await until(page, "three nodes have rates", () => [...document.querySelectorAll(".node .spark .rate")].filter((path) => /L/.test(path.getAttribute("d"))).length === 3);
    assert.ok(!(await page.locator(".figure .value").first().textContent()).startsWith("–"));
  });
});

test("goes everywhere by keys, and tells them", () =>
  open(browser, PAGE, {}, async (page) => {
    await page.locator(editor).waitFor();
    for (const [key, heading] of [["e", "Metrics"], ["a", "Rules and alerts"], ["c", "Cluster"], ["s", "Running and slow queries"], ["q", "Query"]]) {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await page.getByRole("heading", { level: 1, name: heading }).waitFor({ state: "attached" });
    }
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await shoot(page, "keys");
    await page.keyboard.press("Escape");
    await until(page, "the dialog is closed", () => document.querySelector("dialog") === null);
    // Everything that can be pressed can be reached, and shows that it is.
    const seen = new Set();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      seen.add(await page.evaluate(() => {
        const at = document.activeElement;
        const outlined = getComputedStyle(at).outlineStyle !== "none";
        return at === document.body ? "body" : `${at.textContent.trim() || at.getAttribute("aria-label") || at.tagName}${outlined ? "" : " WITHOUT OUTLINE"}`;
      }));
    }
    for (const name of ["Query", "Cluster", "PromQL", "OpenTSDB", "1h", "Plot"]) {
      assert.ok(seen.has(name), `${name} is not among ${[...seen].join(", ")}`);
    }
    assert.deepEqual([...seen].filter((name) => name.includes("WITHOUT")), []);
  }));

test("is dark when that is wanted, and stays so", () =>
  open(browser, PAGE + query("promql", "cpu_percent"), { dark: true }, async (page) => {
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await plotted(page);
    const dark = await back();
    await shoot(page, "query-dark");
    await page.getByRole("button", { name: "Light colours" }).click();
    await until(page, "it is light", (was) => getComputedStyle(document.body).backgroundColor !== was, dark);
    await plotted(page);
    await page.reload();
    await plotted(page);
    assert.notEqual(await back(), dark);
    await page.goto(`${PAGE}#/cluster`);
    await page.getByRole("button", { name: "Dark colours" }).click();
    await until(page, "three nodes are drawn", () => document.querySelectorAll(".node").length === 3);
    assert.equal(await back(), dark);
    await shoot(page, "cluster-dark");
    await page.goto(`${PAGE}#/explore?metric=cpu_percent`);
    await page.locator(".tag").first().waitFor();
    await shoot(page, "explore-dark");
  }));

test("fits a phone", async () => {
  for (const [name, hash, ready] of [
    ["query", query("promql", "cpu_percent"), ".plot canvas"],
    ["table", query("promql", "cpu_percent", { show: "table" }), "table.series"],
    ["explore", "#/explore?metric=cpu_percent", ".tag"],
    ["plan", query("promql", "sum(cpu_percent)", { show: "plan" }), ".plan"],
    ["alerts", "#/alerts", ".rules li"],
    ["cluster", "#/cluster", ".node"],
    ["queries", "#/queries", ".book li"],
  ]) {
    await open(browser, PAGE + hash, { width: 360, height: 740 }, async (page) => {
      await page.locator(ready).first().waitFor();
      assert.equal(await sideways(page), 0, `${name} is wider than the phone`);
      await shoot(page, `phone-${name}`, true);
    });
  }
});

test("nothing moves while the cluster is looked at", () =>
  open(browser, `${PAGE}#/cluster`, {}, async (page) => {
    await until(page, "there is a rate of points", () => !document.querySelector(".figure .value")?.textContent.startsWith("–"));
    const shift = await page.evaluate(
      () =>
        new Promise((resolve) => {
          let sum = 0;
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) {
              sum += entry.value;
            }
          }).observe({ type: "layout-shift" });
          // Two further looks, told by the time of what is shown.
          let looks = 0;
          const fetched = new PerformanceObserver((list) => {
            looks += list.getEntries().filter((entry) => entry.name.includes("/ui/api/status")).length;
            if (looks >= 2) {
              requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
            }
          });
          fetched.observe({ type: "resource" });
        }),
    );
    assert.ok(shift < 0.01, `the page moved by ${shift}`);
  }));

test("works below a prefix of the path", () =>
  open(browser, PREFIXED + query("promql", "cpu_percent"), {}, async (page) => {
    await plotted(page);
    await page.getByRole("link", { name: "Cluster" }).click();
    await until(page, "three nodes are drawn", () => document.querySelectorAll(".node").length === 3);
    assert.ok(page.url().startsWith(PREFIXED));
  }));

test("shows another database", () =>
  open(browser, `${PAGE}#/explore`, {}, async (page) => {
    await page.locator(".names li").first().waitFor();
    await page.getByRole("combobox", { name: "Database" }).selectOption("other");
    await until(page, "its metric is there alone", () => [...document.querySelectorAll(".names .name")].map((e) => e.textContent).join() === "elsewhere");
    await page.locator(".names button").click();
    await page.getByRole("button", { name: "Query", exact: true }).click();
    await plotted(page).catch(() => {}); // one point makes no line; the legend has it
    assert.deepEqual(await names(page), ['elsewhere{host="a"}']);
  }));

/** A state of a cluster in trouble, with everything that the picture can show. */
function troubled() {
  const roles = ["full", "full", "witness"];
  const names = ["a1", "a2", "b1", "b2", "c1"];
  const nodes = names.map((node, i) => ({
    node,
    zone: `zone-${node[0]}`,
    address: `10.0.0.${i + 1}:6190`,
    version: "0.1.0",
    desired: node === "b2" ? "draining" : "active",
    alive: node !== "c1",
    deadMs: node === "c1" ? 95_000 : 0,
    refusal: node === "a2" ? "the disk is full" : "",
    capacityBytes: node === "c1" ? 0 : 500e9,
    usedBytes: [120e9, 497e9, 300e9, 420e9, 0][i],
    leads: 30,
    fullReplicas: 50,
    witnesses: 25,
    learners: 0,
    samplesApplied: 1000,
  }));
  const groups = Array.from({ length: 128 }, (_, shard) => {
    const members = roles.map((role, k) => {
      const node = names[(shard + k) % names.length];
      return { node, role, active: node !== "c1", lag: node === "b1" ? 1234 : 0 };
    });
    const headless = shard % 40 === 7;
    const leader = headless ? "" : (members.find((m) => m.active && m.role === "full")?.node ?? "");
    const intended = shard % 9 === 0 ? [{ node: "a1", role: "full", active: true, lag: 0 }] : [];
    return { shard, era: 1, term: 3, leader, commitIndex: 9, bytes: 3e9, lossesSurvived: headless ? 0 : 1, members, intended };
  });
  const move = (shard, done, remainingMs) => ({
    shard, from: shard % 2 ? "b2" : "", to: "a1", phase: done ? "files" : "waiting", doneBytes: done, totalBytes: 3e9, remainingMs, bytesPerSecond: done ? 24e6 : 0,
  });
  return {
    timeMs: Date.now(), cluster: "troubled", mapEpoch: 512, shards: 128, replication: 2, storeReachable: true,
    problems: ["node a2 takes no writes: the disk is full", "3 shards have no leader that answers", "51 shards have fewer than 2 live copies"],
    nodes, groups, moves: [move(9, 2.1e9, 38_000), move(18, 0.4e9, 108_000), move(27, 0, 0)],
    movesAhead: { moves: 15, totalBytes: 45e9, doneBytes: 2.5e9, remainingMs: 1_900_000 },
  };
}

test("shows trouble for what it is: zones, moves, a full disk, shards without leaders", async () => {
  for (const [name, options] of [["cluster-troubled", { height: 1500 }], ["cluster-troubled-dark", { height: 1500, dark: true }], ["phone-cluster-troubled", { width: 360, height: 740 }]]) {
    const context = { ...options };
    await open(browser, PAGE, context, async (page) => {
      await page.route("**/ui/api/status", (route) => route.fulfill({ json: troubled() }));
      await page.goto(`${PAGE}#/cluster`);
      await until(page, "five nodes are drawn", () => document.querySelectorAll(".node").length === 5);
      assert.deepEqual(await page.locator(".zone > h3").allTextContents(), ["zone-a", "zone-b", "zone-c"]);
      assert.deepEqual(
        await page.locator(".node").evaluateAll((all) => all.map((node) => node.dataset.health)),
        ["well", "refusing", "well", "leaving", "dead"],
      );
      assert.equal(await page.locator(".problems li").count(), 4);
      assert.match(await page.locator(".moves li").first().textContent(), /shard 9.*b2 → a1.*files · 1\.96 GiB of 2\.79 GiB · 22\.9 MiB\/s · 38 s left/);
      assert.ok((await page.locator('.node[data-node="a1"] .cell.joining').getAttribute("data-count")) > 0);
      // Cells fill as data comes, and those that it leaves are marked.
      assert.equal((await page.locator('.node[data-node="a1"] .arrived').getAttribute("d")).match(/M/g).length, 2);
      assert.equal((await page.locator('.node[data-node="b2"] .leaving').getAttribute("d")).match(/M/g).length, 2);
      assert.equal(await sideways(page), 0);
      await shoot(page, name, true);
    });
  }
});

test("keeps nobody out: roles, names and contrast of every view, in both colours", async () => {
  const found = [];
  for (const dark of [false, true]) {
    for (const [name, hash, ready] of [
      ["query", query("promql", "cpu_percent"), ".plot canvas"],
      ["table", query("promql", "cpu_percent", { show: "table" }), "table.series"],
      ["raw", query("opentsdb", "sum:cpu_percent", { show: "raw" }), "pre.raw"],
      ["error", query("promql", "sum("), ".place"],
      ["plan", query("promql", "sum(cpu_percent)", { show: "plan" }), ".plan"],
      ["explore", "#/explore?metric=cpu_percent", ".tag"],
      ["alerts", "#/alerts", ".rules li"],
      ["cluster", "#/cluster", ".node"],
      ["trouble", "#/cluster", ".moves li"],
      ["queries", "#/queries", ".book li"],
    ]) {
      await open(browser, PAGE, { dark, errorsExpected: name === "error" }, async (page) => {
        if (name === "trouble") {
          await page.route("**/ui/api/status", (route) => route.fulfill({ json: troubled() }));
        }
        await page.goto(PAGE + hash);
        await page.locator(ready).first().waitFor();
        await until(page, "nothing is asked any more", () => document.querySelector('[aria-busy="true"]') === null);
        found.push(...(await barriers(page)).map((barrier) => `${name}, ${dark ? "dark" : "light"}: ${barrier}`));
      });
    }
  }
  assert.deepEqual(found, []);
});

test("cancels a query, when that may be", () =>
  open(browser, `${PAGE}#/queries`, {}, async (page) => {
    const running = { id: "424242", dialect: "promql", database: "default", text: "count(up)", user: "ann", beganMs: Date.now(), tookMs: 5000, series: 1, samples: 2, bytes: 3, error: "", mayCancel: true };
    await page.route("**/ui/api/queries", (route) =>
      route.fulfill({ json: { running: [running, { ...running, id: "424243", mayCancel: false }], slow: [], hidden: 2 } }),
    );
    const cancel = page.getByRole("button", { name: "Cancel" });
    await until(page, "two are running", () => document.querySelectorAll(".acts button").length === 4);
    assert.equal(await cancel.nth(1).isDisabled(), true);
    const answer = new Promise((resolve) =>
      page.route("**/ui/api/cancel?id=424242", async (route) => {
        const response = await route.fetch();
        resolve(await response.json());
        await route.fulfill({ response });
      }),
    );
    await cancel.first().click();
    assert.deepEqual(await answer, { canceled: false });
    assert.match(await page.locator("main").textContent(), /2 more are of databases that you may not read/);
    await shoot(page, "queries-running");
  }));
