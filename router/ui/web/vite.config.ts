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

/** whole puts scripts and styles into the document that names them: it has to stand alone. */
function whole(document: string): Plugin {
  return {
    name: "whole",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      const html = bundle[document];
      if (html?.type !== "asset") {
        this.error(`there is no ${document}`);
      }
      let text = String(html.source);
      for (const [fileName, item] of Object.entries(bundle)) {
        if (item === html) {
          continue;
        }
        const inside = item.type === "chunk" ? item.code.trim() : String(item.source).trim();
        const kind = item.type === "chunk" ? "script" : "style";
        const named = new RegExp(
          `[ ]*<(script|link) [^>]*"\\./${fileName.replaceAll(".", "\\.")}"[^>]*>(</script>)?\\n?`,
        );
        if (!named.test(text) || inside.includes(`</${kind}`)) {
          this.error(`${fileName} cannot be put into ${document}`);
        }
        const element = `<${kind}${kind === "script" ? ' type="module"' : ""}>${inside}</${kind}>\n`;
        text = text.replace(named, "").replace(kind === "script" ? "</body>" : "</head>", (end) => element + end);
        delete bundle[fileName];
      }
      html.source = text;
    },
  };
}

// Two builds: the page, and then, with --mode signin, the document before it. All addresses
// are relative, so that the page works below any prefix.
export default defineConfig(({ mode }) => ({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../dist",
    emptyOutDir: mode !== "signin",
    assetsDir: "ui/assets",
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    chunkSizeWarningLimit: 200,
    rollupOptions: { input: mode === "signin" ? "signin.html" : "index.html" },
  },
  plugins: [mode === "signin" ? whole("signin.html") : brotli()],
  test: { include: ["src/**/*.test.ts"], environment: "node" },
}));
