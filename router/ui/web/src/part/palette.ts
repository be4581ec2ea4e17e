/**
 * Colours of lines, told apart also by colour-blind people: those of Okabe and Ito (Color
 * Universal Design, 2008), yellow and black darkened or lightened for the background.
 * After all of them have been used, lines are dashed.
 */
export interface Ink {
  colour: string;
  dash: number[];
}

const light = ["#0072b2", "#d55e00", "#008a63", "#b5478f", "#2b8cc4", "#b07900", "#5b4bb0", "#4d4d4d"];
const dark = ["#56b4e9", "#e8793a", "#2fc99a", "#e39bc8", "#8fd0ff", "#f0c244", "#a99cf5", "#c9c9c9"];
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export function inkOf(index: number, isDark: boolean): Ink {
  const colours = isDark ? dark : light;
  return {
    colour: colours[index % colours.length] ?? "#888",
    dash: dashes[Math.floor(index / colours.length) % dashes.length] ?? [],
  };
}
