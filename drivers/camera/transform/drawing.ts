/** Boxes and labels drawn into pictures, in letters of three by five points. */

import type { ColorImage } from "../../../lib/geometry/image/image.ts";

/** Red, green, blue. */
export type Ink = readonly [number, number, number];

export interface PixelEdges {
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

const COLUMNS = 3, ROWS = 5;
/** Longer labels are cut. */
const LABEL_CHARACTERS_MAX = 80;

/** A digit for each row from the top; its bits are the points from the left. */
const LETTERS: { readonly [letter: string]: string } = {
  ...{ "0": "75557", "1": "26227", "2": "71747", "3": "71317", "4": "55711", "5": "74717", "6": "74757" },
  ...{ "7": "71122", "8": "75757", "9": "75717", A: "25755", B: "65656", C: "34443", D: "65556" },
  ...{ E: "74647", F: "74644", G: "34553", H: "55755", I: "72227", J: "11152", K: "55655", L: "44447" },
  ...{ M: "57755", N: "65555", O: "25552", P: "65644", Q: "25563", R: "65655", S: "34216", T: "72222" },
  ...{ U: "55557", V: "55552", W: "55775", X: "55255", Y: "55222", Z: "71247", " ": "00000" },
  ...{ ".": "00002", ":": "02020", "-": "00700", "_": "00007", "/": "11244", "%": "51245", ",": "00024" },
  ...{ "(": "12221", ")": "42224", "+": "02720", "'": "22000", "#": "57575", "?": "71202" },
};

/** The outline of a box, with lines that grow inwards. */
export function drawBox(
  image: ColorImage,
  { xMin, yMin, xMax, yMax }: PixelEdges,
  ink: Ink,
  widthPx = 3,
): void {
  const left = Math.round(xMin), top = Math.round(yMin);
  const right = Math.round(xMax), bottom = Math.round(yMax);
  fill(image, { xMin: left, yMin: top, xMax: right, yMax: top + widthPx }, ink);
  fill(image, { xMin: left, yMin: bottom - widthPx, xMax: right, yMax: bottom }, ink);
  fill(image, { xMin: left, yMin: top, xMax: left + widthPx, yMax: bottom }, ink);
  fill(image, { xMin: right - widthPx, yMin: top, xMax: right, yMax: bottom }, ink);
}

/** Text whose upper left corner is at (x, y); `scale` pixels to a point. */
export function drawText(
  image: ColorImage,
  text: string,
  [x, y]: readonly [number, number],
  ink: Ink,
  scale: number,
): void {
  const letters = [...text.toUpperCase()].slice(0, LABEL_CHARACTERS_MAX);
  for (const [index, letter] of letters.entries()) {
    const rows = LETTERS[Object.hasOwn(LETTERS, letter) ? letter : "?"] ?? "";
    for (let row = 0; row < ROWS; row++) {
      for (let column = 0; column < COLUMNS; column++) {
        if ((Number(rows[row]) >> (COLUMNS - 1 - column) & 1) === 0) continue;
        const left = Math.round(x) + (index * (COLUMNS + 1) + column) * scale,
          top = Math.round(y) + row * scale;
        fill(image, { xMin: left, yMin: top, xMax: left + scale, yMax: top + scale }, ink);
      }
    }
  }
}

function fill(
  { width, height, rgba }: ColorImage,
  { xMin, yMin, xMax, yMax }: PixelEdges,
  [red, green, blue]: Ink,
): void {
  const [left, right] = [Math.max(0, xMin), Math.min(width, xMax)];
  for (let y = Math.max(0, yMin); y < Math.min(height, yMax); y++) {
    for (let at = 4 * (y * width + left); at < 4 * (y * width + right); at += 4) {
      [rgba[at], rgba[at + 1], rgba[at + 2], rgba[at + 3]] = [red, green, blue, 255];
    }
  }
}
