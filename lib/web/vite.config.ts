/**
 * How Vite bundles the machine's page.
 *
 * `npm run dev` in this folder serves the sources with changes as they are saved; calls go to the machine at
 * `SVC_MACHINE` (`http://localhost:8080`).
 */

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

declare const process: { readonly env: Readonly<Record<string, string | undefined>> };

const machine = process.env.SVC_MACHINE ?? "http://localhost:8080";
const CALLS = "^/(viam|proto|svc|grpc)\\.";

export default defineConfig({
  root: "machine",
  base: "./",
  plugins: [svelte({ configFile: "../svelte.config.js" })],
  build: {
    // The policy of the page lets in no address of data, but for pictures.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 1500,
  },
  server: { proxy: { [CALLS]: { target: machine, changeOrigin: true } } },
});
