import { brotliCompressSync, constants } from "node:zlib";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** brotli adds a compressed form beside each file; the server sends it as it is. */
function brotli(): Plugin {
  return {
    name: "brotli",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      for (const [fileName, item] of Object.entries(bundle)) {
        const source = item.type === "chunk" ? item.code : item.source;
        const bytes = Buffer.from(source);
        const packed = brotliCompressSync(bytes, {
          params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
        });
        if (packed.length < bytes.length) {
          this.emitFile({ type: "asset", fileName: `${fileName}.br`, source: packed });
        }
      }
    },
  };
}

// All addresses are relative, so that the page works below any prefix.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    assetsDir: "ui/assets",
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    chunkSizeWarningLimit: 200,
  },
  plugins: [brotli()],
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
