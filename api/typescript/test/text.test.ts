import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { it } from "node:test";
import { decode, encode } from "../src/text.js";

it("returns the bytes of any name again", () => {
  const pieces = ["a", "é", "€", "😀", "\ufeff", "\0"].map((text) => Buffer.from(text));
  for (let round = 0; round < 2_000; round++) {
    const parts = Array.from({ length: randomInt(8) }, () => pieces[randomInt(12)] ?? randomBytes(randomInt(1, 5)));
    const bytes = Buffer.concat(parts);
    assert.deepEqual(encode(decode(bytes)), bytes, bytes.toString("hex"));
  }
});

it("leaves text as it is, and spells other bytes as Python does", () => {
  assert.equal(decode(Buffer.from("é€😀")), "é€😀");
  assert.equal(decode(Buffer.from([0x61, 0xff, 0xc3, 0x62, 0xed, 0xb3, 0xbf])), "a\udcff\udcc3b\udced\udcb3\udcbf");
});
