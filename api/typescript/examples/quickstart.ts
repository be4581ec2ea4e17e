import { Client, equal, Series } from "tickmesh";

const client = new Client({ endpoints: (process.env.TICKMESH_ENDPOINTS ?? "127.0.0.1:6183").split(",") });
const cpu = new Series("cpu", { host: "a" });

// One write, answered when a majority of the replicas has it.
await client.write([{ series: cpu, timeMs: 1_700_000_000_000, value: 0.64 }]);

// Many samples: gathered into batches, sent in the background. append waits while the buffer is full.
const writer = client.writer();
for (let i = 1; i < 100_000; i++) {
  await writer.append(cpu, 1_700_000_000_000 + i, i / 10);
}
await writer.close(); // sends what is left; rejects with what was lost

let points = 0;
const selector = { metric: "cpu", matchers: [equal("host", "a")] };
for await (const chunk of client.query({ selector, fromMs: 0, toMs: 1_800_000_000_000 })) {
  points += chunk.values.length;
}
console.log(`${points} points of ${cpu}`);
client.close();
