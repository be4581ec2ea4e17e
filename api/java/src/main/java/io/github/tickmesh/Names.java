package io.github.tickmesh;

import com.google.protobuf.ByteString;
import io.github.tickmesh.TickmeshException.Kind;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Names are bytes, usually UTF-8. Bytes that are no UTF-8 are surrogates U+DC80 to U+DCFF in a
 * string, as in the Python client, so that every name comes back as it was.
 */
final class Names {
  private static final int SURROGATE_OF_BYTE = 0xdc00;

  private Names() {}

  /** Returns the bytes of a name. Throws INVALID for a surrogate that stands for no byte. */
  static ByteString encode(String text) {
    if (text.chars().noneMatch(c -> Character.isSurrogate((char) c))) {
      return ByteString.copyFromUtf8(text);
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    text.codePoints()
        .forEach(
            c -> {
              if (c < Character.MIN_SURROGATE || c > Character.MAX_SURROGATE) {
                out.writeBytes(Character.toString(c).getBytes(StandardCharsets.UTF_8));
              } else if (c >= SURROGATE_OF_BYTE + 0x80 && c <= SURROGATE_OF_BYTE + 0xff) {
                out.write(c - SURROGATE_OF_BYTE);
              } else {
                throw new TickmeshException(
                    Kind.INVALID,
                    "a name has a surrogate that stands for no byte: U+" + Integer.toHexString(c));
              }
            });
    return ByteString.copyFrom(out.toByteArray());
  }

  /** Returns the name of bytes; encode returns the bytes again. */
  static String decode(ByteString bytes) {
    if (bytes.isValidUtf8()) {
      return bytes.toStringUtf8();
    }
    StringBuilder text = new StringBuilder();
    for (int at = 0; at < bytes.size(); ) {
      int length = 1;
      String character = valid(bytes, at, length);
      while (character == null && length < 4 && at + length < bytes.size()) {
        length++;
        character = valid(bytes, at, length);
      }
      if (character == null) {
        text.append((char) (SURROGATE_OF_BYTE + (bytes.byteAt(at) & 0xff)));
        length = 1;
      } else {
        text.append(character);
      }
      at += length;
    }
    return text.toString();
  }

  private static String valid(ByteString bytes, int at, int length) {
    ByteBuffer part = bytes.substring(at, at + length).asReadOnlyByteBuffer();
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(part).toString();
    } catch (CharacterCodingException e) {
      return null;
    }
  }
}
