// A cluster of processes, one node of which is killed while it is looked at.
import assert from "node:assert/strict";
import { test } from "node:test";
import { launch, open, shoot, until } from "./page.mjs";

const { PAGE, CONTROL } = process.env;

test("a killed node is told of, in words and colours", async () => {
  const browser = await launch();
  try {
    // What is asked while a router looks for new leaders may fail: the page has to stand it.
    await open(browser, `${PAGE}#/cluster`, { height: 1050, errorsExpected: true }, async (page) => {
      const health = (wanted) =>
        until(page, `the nodes are ${wanted}`, (list) => {
          const all = [...document.querySelectorAll(".node")].map((node) => `${node.dataset.node} ${node.dataset.health}`);
          return all.sort().join() === list;
        }, wanted);
      await health("n1 well,n2 well,n3 well");
      await until(page, "all is well", () => document.querySelector(".notice.good") !== null);
      assert.equal((await fetch(`${CONTROL}/kill/n2`, { method: "POST" })).status, 200);
      await health("n1 well,n2 dead,n3 well");
      assert.match(await page.locator('.node[data-node="n2"] .health').textContent(), /Dead/);
      const colour = (selector) => page.locator(selector).evaluate((e) => getComputedStyle(e).borderTopColor);
      assert.notEqual(await colour('.node[data-node="n2"]'), await colour('.node[data-node="n1"]'));
      // The others lead all shards, and the replicas of the dead one are silent.
      await until(page, "its replicas are silent, and every shard is led", () => {
        const count = (node, state) => Number(document.querySelector(`.node[data-node="${node}"] .cell.${state}`).dataset.count);
        return count("n2", "silent") === 128 && count("n1", "lead") + count("n3", "lead") === 128;
      });
      const problems = await page.locator(".notice.error .problems").textContent();
      assert.match(problems, /node n2 is dead/);
      assert.match(problems, /fewer than 2 live copies/);
      await shoot(page, "cluster-node-killed");
    });
  } finally {
    await browser.close();
  }
});
