/**
 * How Vite bundles the pages; its mode is the page's folder.
 *
 * `npm run dev` in this folder serves the machine's sources with changes as they are saved; calls go to the machine at
 * `SVC_MACHINE` (`http://localhost:8080`). `npm run dev -- --mode fleet` does the same for the fleet, with calls to the
 * control plane at `SVC_CLOUD` (`http://localhost:8090`).
 */

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

declare const process: { readonly env: Readonly<Record<string, string | undefined>> };

const targets = {
  machine: process.env.SVC_MACHINE ?? "http://localhost:8080",
  fleet: process.env.SVC_CLOUD ?? "http://localhost:8090",
};
const CALLS = "^/(viam|proto|svc|grpc)\\.";
/** The fleet's page has a document for a machine of its own, too. */
const DOCUMENTS = { machine: ["machine/index.html"], fleet: ["fleet/index.html", "fleet/machine.html"] };

export default defineConfig(({ mode }) => {
  const page = mode === "fleet" ? "fleet" : "machine";
  return {
    root: page,
    base: "./",
    plugins: [svelte({ configFile: "../svelte.config.js" })],
    build: {
      // The policy of the page lets in no address of data, but for pictures.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      target: "es2022",
      chunkSizeWarningLimit: 1500,
      rolldownOptions: { input: DOCUMENTS[page] },
    },
    server: { proxy: { [CALLS]: { target: targets[page], changeOrigin: true } } },
  };
});
