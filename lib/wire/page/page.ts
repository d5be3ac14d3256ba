/**
 * The page of a program: `GET /`, its further documents, and its assets below `/assets/`.
 *
 * Everybody who reaches the port may read them, because they contain no data of the program. The page gets its data by
 * calls, which need the same authorization as all others. It runs only its own code, talks only to this port, and no
 * other site can frame it or read it.
 *
 * The room owns how built pages are packed and served.
 */

import { onePiece } from "../../base/files/byte_reader.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { contentAnswer } from "../port/content.ts";
import { fieldValue } from "../port/exchange.ts";
import { textAnswer } from "../port/routes.ts";
import { forAnySite } from "../port/sites.ts";
import { PAGE_ENCODINGS, type PageAsset, type PageEncoding, unpackAssets } from "./archive.ts";
import type { Route, RouteAnswer, RouteRequest } from "../port/route.ts";

/** The source of the built page. */
export interface PageSource {
  /**
   * The built page, a file of `packAssets`: the same object as long as it is unchanged; `undefined` if there is none.
   */
  load(): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** How a person gets the page, if there is none. */
  readonly remedy: string;
}

/** What differs between the programs. */
export interface PageOptions {
  /** A description of the program, for people who open its address when there is no page. */
  readonly greeting: string;
  /** Documents beside the first one: `machine` is `machine.html` at `/machine`. */
  readonly documents?: readonly string[];
}

const INDEX = "index.html";
const ASSETS = "assets/";

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  // The client library keeps its sessions alive with a timer in a worker, which it creates from a blob.
  "worker-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const SAFETY: HeaderFields = [
  ["content-security-policy", POLICY],
  ["referrer-policy", "no-referrer"],
  ["cross-origin-opener-policy", "same-origin"],
  ["cross-origin-resource-policy", "same-origin"],
  ["permissions-policy", "camera=(), geolocation=(), microphone=(self), payment=(), usb=()"],
];

/** The name of an asset changes with its content. */
const FOREVER = "public, max-age=31536000, immutable";

/** The routes of the page. */
export function pageRoutes(
  source: PageSource,
  { greeting, documents = [] }: PageOptions,
): ReadonlyMap<string, Route> {
  const assets = assetsFrom(source);
  const files = new Map([["/", INDEX], ...documents.map((name) => [`/${name}`, `${name}.html`] as const)]);
  const route: Route = async (request) => {
    const { method, path } = request;
    if (method !== "GET" && method !== "HEAD") return textAnswer(405, `${path} answers GET, not ${method}`);
    const found = await assets();
    const document = files.get(path);
    const asset = found?.get(document ?? path.slice(1));
    if (asset) return assetAnswer(request, asset, await bodyFor(request, asset));
    if (document === undefined) return textAnswer(404, `there is nothing at ${path}`);
    return await forAnySite(() => textAnswer(200, `${greeting} It has no page: ${source.remedy}`))(request);
  };
  return new Map([...files.keys(), `/${ASSETS}*`].map((path) => [path, route]));
}

/** Reads the assets again only when the source returns another file. */
function assetsFrom(source: PageSource): () => Promise<ReadonlyMap<string, PageAsset> | undefined> {
  let last: { readonly bytes: Uint8Array; readonly assets: ReadonlyMap<string, PageAsset> } | undefined;
  return async () => {
    const bytes = await source.load();
    if (!bytes) return undefined;
    if (last?.bytes !== bytes) last = { bytes, assets: unpackAssets(bytes) };
    return last.assets;
  };
}

interface EncodedBody {
  readonly encoding: PageEncoding | "identity";
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The content in the first encoding that the client accepts; unpacked if it accepts none. */
async function bodyFor({ fields }: RouteRequest, { contents }: PageAsset): Promise<EncodedBody> {
  const accepted = acceptedEncodings(fieldValue(fields, "accept-encoding") ?? "");
  const encoding = PAGE_ENCODINGS.find((one) => accepted.has(one));
  if (encoding) return { encoding, bytes: contents[encoding] };
  const plain = new Blob([contents.gzip]).stream().pipeThrough(new DecompressionStream("gzip"));
  return { encoding: "identity", bytes: new Uint8Array(await new Response(plain).arrayBuffer()) };
}

/** `gzip, deflate;q=0.5, br;q=0` accepts `gzip` and `deflate`. */
function acceptedEncodings(header: string): ReadonlySet<string> {
  const offers = header.toLowerCase().split(",").map((offer) => offer.split(";").map((part) => part.trim()));
  const taken = offers.filter(([, ...parameters]) => !parameters.some((one) => /^q=0(\.0*)?$/.test(one)));
  return new Set(taken.map(([name = ""]) => name));
}

function assetAnswer(request: RouteRequest, asset: PageAsset, { encoding, bytes }: EncodedBody): RouteAnswer {
  const isDocument = asset.path.endsWith(".html");
  return contentAnswer(request, {
    etag: `"${asset.sum}-${encoding}"`,
    bytes: bytes.length,
    contentType: asset.contentType,
    read: (from) => onePiece(bytes.subarray(from)),
    fields: [
      ...SAFETY,
      ["cache-control", isDocument ? "no-cache" : FOREVER],
      ["vary", "accept-encoding"],
      ...encoding === "identity" ? [] : [["content-encoding", encoding] as [string, string]],
    ],
  });
}
