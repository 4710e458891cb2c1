// Makes plotly.min.js.gz, which pages carry: plotly.js with lines as its only kind of trace.
//
//   npm install --ignore-scripts plotly.js@4.1.1 esbuild && node bundle_plotly.mjs
//
// Against the published basic bundle it has no bars, pies and calendars, no style sheet of maps, and no
// descriptions in the schema of its attributes (which only `Plotly.PlotSchema` shows): a sixth less.
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const { version } = JSON.parse(await readFile("node_modules/plotly.js/package.json", "utf8"));
const descriptions = [
  /\bdescription:\s*\[[\s\S]*?\]\s*\.join\([^)]*\)/g,
  /\bdescription:\s*(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")/g,
];
const withoutDescriptions = {
  name: "without-descriptions",
  setup(bundler) {
    bundler.onLoad({ filter: /plotly\.js\/src\/.*\.js$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const contents = descriptions.reduce((text, words) => text.replace(words, "description: ''"), source);
      return { contents, loader: "js" };
    });
  },
};
const { outputFiles } = await build({
  stdin: { contents: "module.exports = require('plotly.js/lib/core')", resolveDir: "." },
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  globalName: "Plotly",
  target: "es2016",
  define: { global: "window", "define.amd": "false" },
  loader: { ".css": "empty" },
  banner: { js: `/*! plotly.js (lines only - minified) v${version}, Copyright 2012-2026, Plotly, Inc., MIT license */` },
  legalComments: "inline",
  plugins: [withoutDescriptions],
});
await writeFile("plotly.min.js.gz", gzipSync(outputFiles[0].contents, { level: 9 }));
