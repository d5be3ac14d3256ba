/**
 * File names made of text from outside, and names that mean something else on Windows.
 */

/** Longest name made of a text. File systems allow 255 bytes, and callers add endings. */
const NAME_CHARS_MAX = 200;

/** Names of devices on Windows, in any folder and with any extension (source: Microsoft, "Naming Files"). */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\.|$)/i;
// deno-lint-ignore no-control-regex
const FORBIDDEN = /[<>:"|?*\x00-\x1f]/;
/** `\\?\C:\` and `\\server\`, and the drive. */
const ROOT = /^(?:[/\\]{2}[?.][/\\])?(?:[A-Za-z]:)?/;

/**
 * A file name for a text: safe on every system, never empty, and never a path. Different texts may have the same name.
 */
export function fileNameFrom(text: string): string {
  const name = text.slice(0, NAME_CHARS_MAX).replaceAll(/[^\w.+-]/g, "_").replaceAll(/^\.+|\.+$/g, "");
  return name === "" || DEVICE.test(name) ? `_${name}` : name;
}

/**
 * The problem of a path to write to on Windows; `undefined` if there is none. Windows takes some names for devices,
 * some for parts of another file, and drops dots and spaces at the end, so that two names lead to one file.
 */
export function windowsProblem(path: string): string | undefined {
  for (const name of path.replace(ROOT, "").split(/[/\\]/)) {
    if (name === "" || name === "." || name === "..") continue;
    const shown = JSON.stringify(name);
    if (FORBIDDEN.test(name)) return `the name ${shown} has a character that Windows does not allow`;
    if (/[. ]$/.test(name)) return `the name ${shown} ends with a dot or a space, which Windows drops`;
    if (DEVICE.test(name)) return `the name ${shown} is that of a device on Windows`;
  }
}

/**
 * Why nothing is found at a path. This runtime shows bytes that are not UTF-8 as U+FFFD, under which no file is opened,
 * although it is listed.
 */
export function whyMissing(path: string): string {
  const missing = "it does not exist";
  return path.includes("\ufffd") ? `${missing}, or its name is not UTF-8 text: then rename it` : missing;
}
