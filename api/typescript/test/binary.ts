import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.env.TICKMESH_BINARY ?? new URL("../../../../bin/tickmesh", import.meta.url).pathname;

/** Runs a command of the program and returns its standard output. */
export function run(...args: string[]): string {
  return execFileSync(binary, args, { encoding: "utf8" });
}

/** A `tickmesh standalone` with a folder of its own, which may be killed and started again. */
export class Standalone {
  readonly folder = mkdtempSync(join(tmpdir(), "tickmesh-typescript-"));
  readonly #flags: readonly string[];
  #process: ChildProcess | undefined;
  /** Of its gRPC port: chosen at the first start, kept after. */
  address = "127.0.0.1:0";
  http = "127.0.0.1:0";

  constructor(...flags: string[]) {
    this.#flags = flags;
  }

  /** Starts it and waits until it listens. */
  async start(): Promise<void> {
    const server = spawn(
      binary,
      [
        "standalone",
        "--data-dir",
        join(this.folder, "data"),
        "--log-format",
        "json",
        "--put-addr",
        "",
        "--line-addr",
        "",
      ]
        .concat("--http-addr", this.http, "--grpc-addr", this.address)
        .concat(this.#flags),
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    this.#process = server;
    await new Promise<void>((resolve, reject) => {
      const log: string[] = [];
      server.once("error", reject);
      server.once("exit", () => reject(new Error(`the server ended:\n${log.join("\n")}`)));
      const missing = new Set(["http", "grpc"]);
      createInterface({ input: server.stderr as NodeJS.ReadableStream }).on("line", (line) => {
        if (missing.size === 0) {
          return; // read on, so that the server may write
        }
        log.push(line);
        const { msg, port, address } = line.startsWith("{") ? JSON.parse(line) : {};
        if (msg === "listening" && missing.delete(port)) {
          this[port === "grpc" ? "address" : "http"] = address;
          if (missing.size === 0) {
            resolve();
          }
        }
      });
    });
  }

  /** Kills it with all that it holds in memory, and waits for its end. */
  async kill(): Promise<void> {
    const server = this.#process;
    this.#process = undefined;
    if (server !== undefined && server.exitCode === null) {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGKILL");
      await ended;
    }
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
