/**
 * Names are bytes, usually UTF-8. Bytes that are no UTF-8 are surrogates U+DC80 to U+DCFF in a string, as in the Python
 * client, so that every name comes back as it was.
 */

import { TickmeshError } from "./errors.js";

const surrogateOfByte = 0xdc00;

/** Returns the bytes of a name. Throws "invalid" for a surrogate that stands for no byte. */
export function encode(text: string): Buffer {
  if (!/\p{Surrogate}/u.test(text)) {
    return Buffer.from(text);
  }
  const parts: Buffer[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0xd800 || code > 0xdfff) {
      parts.push(Buffer.from(character));
    } else if (code >= surrogateOfByte + 0x80 && code <= surrogateOfByte + 0xff) {
      parts.push(Buffer.of(code - surrogateOfByte));
    } else {
      throw new TickmeshError("invalid", `a name has a surrogate that stands for no byte: ${JSON.stringify(text)}`);
    }
  }
  return Buffer.concat(parts);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns the name of bytes; encode returns the bytes again. */
export function decode(bytes: Uint8Array): string {
  const whole = valid(bytes);
  if (whole !== undefined) {
    return whole;
  }
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    let length = 1;
    let character = valid(bytes.subarray(at, at + length));
    while (character === undefined && length < 4) {
      length++;
      character = valid(bytes.subarray(at, at + length));
    }
    text += character ?? String.fromCharCode(surrogateOfByte + (bytes[at] ?? 0));
    at += character === undefined ? 1 : length;
  }
  return text;
}

function valid(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
