/** Whether this browser draws in three dimensions. */

let known: boolean | undefined;

export function hasWebGl(): boolean {
  known ??= document.createElement("canvas").getContext("webgl2") !== null;
  return known;
}
