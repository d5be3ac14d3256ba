/**
 * Watches a file through every link that leads to it.
 */

import { dirname, isAbsolute, join, parse, resolve, sep } from "node:path";

/** See `WatchFiles`. */
export function watchFile(path: string, changed: () => void): () => void {
  const steps = stepsTo(path);
  const watchers = [...new Set([...steps].map(dirname))].flatMap((folder) => {
    const watcher = watchFolder(folder);
    if (watcher) hear(watcher, folder, steps, changed).catch(changed);
    return watcher ?? [];
  });
  return () => {
    for (const watcher of watchers) watcher.close();
  };
}

/** Ends a circle of links. */
const LINKS_MAX = 40;

/** The folder entries that decide what `path` reads: every link on the way, and the file at its end. */
function stepsTo(path: string): Set<string> {
  const steps = new Set<string>();
  let at = parse(resolve(path)).root;
  const names = resolve(path).slice(at.length).split(sep);
  for (let name = names.shift(), links = 0; name !== undefined; name = names.shift()) {
    const next = join(at, name);
    const target = links < LINKS_MAX ? linkAt(next) : undefined;
    if (target === undefined) at = next;
    else {
      links++;
      steps.add(next);
      const { root } = parse(target);
      if (isAbsolute(target)) at = root;
      names.unshift(...target.slice(root.length).split(sep));
    }
  }
  return steps.add(at);
}

function linkAt(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined;
  }
}

function watchFolder(path: string): Deno.FsWatcher | undefined {
  try {
    return Deno.watchFs(path, { recursive: false });
  } catch {
    return undefined;
  }
}

async function hear(watcher: Deno.FsWatcher, folder: string, steps: Set<string>, changed: () => void) {
  for await (const { kind, paths } of watcher) {
    const concerns = paths.length === 0 || paths.some((path) => path === folder || steps.has(path));
    if (kind !== "access" && concerns) changed();
  }
}
