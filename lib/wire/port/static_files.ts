/**
 * The files of a folder as pages: `GET /static/PATH`.
 *
 * Everybody who reaches the port may read them, without credentials. Nothing outside the folder is reached, neither by
 * a path nor by a link, and names that begin with a dot are not shown.
 */

import { extname, join, relative } from "node:path";
import { SvcError } from "../../base/error.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { contentAnswer } from "./content.ts";
import { textAnswer } from "./routes.ts";
import { forAnySite } from "./sites.ts";
import type { Route, RouteAnswer, RouteRequest } from "./route.ts";

/** Content types by the extension of the name; clients save other files as bytes. */
const TYPES: { readonly [ending: string]: string } = {
  ".avif": "image/avif",
  ".css": "text/css; charset=utf-8",
  ".csv": "text/csv; charset=utf-8",
  ".gif": "image/gif",
  ".htm": "text/html; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/vnd.microsoft.icon",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".mp4": "video/mp4",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
  ".webm": "video/webm",
  ".webmanifest": "application/manifest+json",
  ".webp": "image/webp",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
  ".xml": "application/xml",
};
const PREFIX = "/static/";
const INDEX = "index.html";

/**
 * The pages of the folder `static` in `folder`, as published, or of `folder` itself if it has none. Throws `not_found`
 * if `folder` does not exist.
 */
export async function staticRoutes(folder: string, files: ReadFiles): Promise<ReadonlyMap<string, Route>> {
  const isFolder = async (path: string) => (await files.stat(path))?.kind === "folder";
  if (!await isFolder(folder)) {
    throw new SvcError("not_found", `there is no folder "${folder}" with static web assets`);
  }
  const below = join(folder, "static");
  const root = await files.realPath(await isFolder(below) ? below : folder);
  return new Map([[`${PREFIX}*`, forAnySite((request) => answer(request, root, files))]]);
}

async function answer(request: RouteRequest, root: string, files: ReadFiles): Promise<RouteAnswer> {
  const { method, path } = request;
  if (method !== "GET" && method !== "HEAD") return textAnswer(405, `${path} answers GET, not ${method}`);

  const parts = partsOf(path.slice(PREFIX.length));
  if (!parts) return nothingAt(path);

  const asked = await files.realPath(join(root, ...parts)).catch(() => undefined);
  if (asked === undefined || !isWithin(root, asked)) return nothingAt(path);

  const isFolder = (await files.stat(asked))?.kind === "folder";
  // Without the final slash, relative links of an index page would be wrong.
  if (isFolder && !path.endsWith("/")) {
    return { ...textAnswer(301, `see ${path}/`), fields: [["location", `${path}/`]] };
  }

  const file = isFolder ? await files.realPath(join(asked, INDEX)).catch(() => undefined) : asked;
  const facts = file !== undefined && isWithin(root, file) ? await files.findFile(file) : undefined;
  if (file === undefined || !facts) return nothingAt(path);

  return contentAnswer(request, {
    etag: `"${facts.sizeBytes.toString(16)}-${Math.round(facts.modifiedMs).toString(16)}"`,
    bytes: facts.sizeBytes,
    contentType: TYPES[extname(file).toLowerCase()] ?? "application/octet-stream",
    read: (from) => files.readPieces(file, from),
    fields: [["cache-control", "no-cache"]],
  });
}

/** The names of a path; `undefined` if one of them is hidden or impossible. */
function partsOf(path: string): string[] | undefined {
  try {
    const parts = path.split("/").filter((part) => part !== "").map(decodeURIComponent);
    // deno-lint-ignore no-control-regex
    return parts.some((part) => /^\.|[\x00-\x1f/\\:]/.test(part)) ? undefined : parts;
  } catch {
    return undefined;
  }
}

function isWithin(root: string, path: string): boolean {
  return !/^\.\.|^[/\\]|^[a-z]:/i.test(relative(root, path));
}

function nothingAt(path: string): RouteAnswer {
  return textAnswer(404, `there is nothing at ${path}`);
}
