/**
 * The setup page that a phone shows after it has joined the hotspot. Pure.
 *
 * It needs no scripts, fonts or other files, and works with a screen reader. Names of networks come from strangers,
 * so every text is escaped.
 */

import { type DeviceView, isOnlyOwe, isWithoutPassword, type SeenNetwork } from "./submissions.ts";

export interface PageContent {
  readonly device: DeviceView;
  readonly errors: readonly string[];
  /** Proves that the form comes from this page. */
  readonly token: string;
  /** The network that the device is about to join, after a complete submission. */
  readonly joining?: string;
}

const STYLE = `
:root{color-scheme:light dark;font:1.0625rem/1.5 system-ui,sans-serif}
body{margin:0 auto;max-width:32rem;padding:1.25rem}
h1{font-size:1.4rem;margin:0 0 .25rem}
p.about{margin:0 0 1.25rem;opacity:.8}
label,legend{display:block;font-weight:600;margin:1rem 0 .3rem}
select,input,textarea,button{box-sizing:border-box;font:inherit;width:100%;padding:.7rem;border:1px solid #767676;border-radius:.5rem}
textarea{min-height:8rem;font-family:ui-monospace,monospace;font-size:.9rem}
small{display:block;opacity:.8}
button{background:#0b5fff;border-color:#0b5fff;color:#fff;font-weight:600;margin-top:1.25rem}
:focus-visible{outline:3px solid #ffb000;outline-offset:2px}
.errors,.news{border-radius:.5rem;padding:.75rem 1rem;margin:0 0 1rem}
.errors{background:#b00020;color:#fff}
.news{background:#0a6b2d;color:#fff}
.errors ul{margin:0;padding-left:1.2rem}
a{display:inline-block;padding:.7rem 0}
`;

/**
 * The path of the page's own links. Phones request other paths by themselves, so only this one proves that a person
 * is there.
 */
export const LOOK_PATH = "/look";

export function page(content: PageContent): string {
  const { device, errors, joining } = content;
  const body = joining === undefined ? form(content) : progress(joining);
  const title = `Set up ${device.manufacturer} ${device.model}`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escaped(title)}</h1>
<p class="about">${escaped(about(device))}</p>
${alerts(errors)}${body}</main>
</body>
</html>
`;
}

function about({ configured, online, fragmentId }: DeviceView): string {
  const state = [
    online ? "It is online." : "It is not online yet.",
    configured ? "It belongs to a machine." : "It does not belong to a machine yet.",
  ];
  if (fragmentId !== "") state.push(`Fragment: ${fragmentId}.`);
  return state.join(" ");
}

function alerts(errors: readonly string[]): string {
  if (errors.length === 0) return "";
  const items = errors.map((error) => `<li>${escaped(error)}</li>`).join("");
  return `<div class="errors" role="alert"><ul>${items}</ul></div>\n`;
}

function progress(ssid: string): string {
  const goal = ssid === "" ? "The device uses the credentials now." : `The device now joins ${ssid}.`;
  return `<div class="news" role="status">
<p>${escaped(goal)}</p>
<p>This hotspot goes down meanwhile. If it is back after a minute, the attempt failed: join it again, and this page says
why. If it stays away, the device is online.</p>
</div>
<a href="${LOOK_PATH}">Back to the form</a>
`;
}

function form({ device, token }: PageContent): string {
  const { online, configured } = device;
  if (online && configured) {
    return `<p class="news" role="status">Nothing is missing. The hotspot goes down soon.</p>\n`;
  }
  return `<form method="post" action="/save" autocomplete="off">
<input type="hidden" name="token" value="${escaped(token)}">
${online ? "" : networkFields(device.networks)}${
    configured ? "" : CREDENTIALS_FIELD
  }<button type="submit">Save</button>
</form>
<a href="${LOOK_PATH}">Look for networks again</a>
`;
}

function networkFields(networks: readonly SeenNetwork[]): string {
  const options = networks.map(({ ssid, signal, security, lastError }) => {
    const notes = [
      `${signal} %`,
      securityShown(security),
      ...lastError === "" ? [] : [lastError],
    ];
    return `<option value="${escaped(ssid)}">${escaped(`${ssid} (${notes.join(", ")})`)}</option>`;
  });
  const choice = options.length === 0 ? "" : `<label for="ssid">Network</label>
<select id="ssid" name="ssid">
<option value="">Choose a network</option>
${options.join("\n")}
</select>
`;
  const other = options.length === 0 ? "Network" : "Or the name of a network that is not listed";
  return `${choice}<label for="other">${other}</label>
<input id="other" name="other" maxlength="32" autocapitalize="none" autocorrect="off" spellcheck="false">
<label for="password">Wi-Fi password</label>
<input id="password" name="password" maxlength="64" autocapitalize="none" autocorrect="off" spellcheck="false" aria-describedby="open">
<small id="open">Leave it empty for an open network.</small>
`;
}

function securityShown(security: string): string {
  if (!isWithoutPassword(security)) return security;
  return isOnlyOwe(security) ? "open, encrypted (OWE)" : "open";
}

const CREDENTIALS_FIELD = `<label for="viamconfig">Machine credentials</label>
<textarea id="viamconfig" name="viamconfig" autocapitalize="none" autocorrect="off" spellcheck="false" aria-describedby="where"></textarea>
<small id="where">The JSON text that the control plane shows for this machine.</small>
`;

/** Text escaped for HTML, including attributes. A box replaces each control character of a name. */
function escaped(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, "\ufffd")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;").replaceAll("'", "&#39;");
}
