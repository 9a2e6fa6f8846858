// What scripts that run in Node use of it, and the one module that the page's checks import.
declare var process: { env: Record<string, string | undefined>; exit(code: number): never };

declare module "@eslint/js" {
  const js: { configs: { recommended: object } };
  export default js;
}
