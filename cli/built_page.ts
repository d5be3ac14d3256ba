/**
 * Finds a program's built page: embedded in an executable, or in `dist/` of a tree that runs from source.
 */

import { fileURLToPath } from "node:url";
import type { ReadFiles } from "../lib/base/files/files.ts";
import { embeddedFile } from "../lib/base/native/packed.ts";
import type { PageSource } from "../lib/wire/page/page.ts";
import type { PagePaths } from "./page_path.ts";

type PageBytes = Uint8Array<ArrayBuffer>;

/** From source, the page is read again after it has been built again. */
export function builtPage(host: ReadFiles, { path: file, name }: PagePaths): PageSource {
  if (Deno.build.standalone) {
    let embedded: Promise<PageBytes | undefined> | undefined;
    return {
      load: () =>
        embedded ??= embeddedFile(name).catch((error) => {
          embedded = undefined;
          throw error;
        }),
      remedy: "this executable was compiled without it.",
    };
  }
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
  let last: { readonly version: string; readonly bytes: Promise<PageBytes> } | undefined;
  return {
    load: async () => {
      const facts = await host.findFile(path);
      if (!facts) return undefined;
      const version = `${facts.sizeBytes} ${facts.modifiedMs}`;
      if (last?.version !== version) last = { version, bytes: host.readFile(path) };
      return await last.bytes;
    },
    remedy: "build it with `deno task web:build` (it needs Node with npm and a registry), then reload.",
  };
}
