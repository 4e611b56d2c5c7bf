// A game of SDL 2: moves 200 sprites for 100 frames, and allocates its text anew in each frame.
// With an argument it also allocates a particle in each frame after the 50th.
#define SDL_MAIN_HANDLED
#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>

static void* volatile kept;

static void particle(void) {
    kept = malloc(48);
    free(kept);
}

static void text_draw(SDL_Renderer* renderer, int frame) {
    char* text = malloc(32);
    snprintf(text, 32, "frame %d", frame);
    for (char* letter = text; *letter != 0; letter++) {
        SDL_Rect box = {(int)(letter - text) * 8, 0, 7, *letter % 16};
        SDL_RenderDrawRect(renderer, &box);
    }
    kept = text;
    free(text);
}

int main(int count, char** arguments) {
    (void)arguments;
    if (SDL_Init(SDL_INIT_VIDEO) != 0) return 1;
    SDL_Window* window = SDL_CreateWindow("game", 0, 0, 320, 240, 0);
    SDL_Renderer* renderer = SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE);
    if (renderer == NULL) return 2;
    for (int frame = 0; frame < 100; frame++) {
        SDL_Event event;
        while (SDL_PollEvent(&event) != 0) {
        }
        SDL_RenderClear(renderer);
        for (int i = 0; i < 200; i++) {
            SDL_Rect sprite = {(i * 31 + frame) % 320, (i * 17) % 240, 8, 8};
            SDL_RenderFillRect(renderer, &sprite);
        }
        text_draw(renderer, frame);
        if (count > 1 && frame > 50) particle();
        SDL_RenderPresent(renderer);
    }
    SDL_DestroyRenderer(renderer);
    SDL_DestroyWindow(window);
    SDL_Quit();
    return 0;
}
