/* Prints its arguments as the C runtime split them: each as UTF-16 units in hexadecimal, one to a line. */
#include <stdio.h>
#include <wchar.h>

int wmain(int count, wchar_t **words)
{
    for (int index = 1; index < count; index++) {
        for (const wchar_t *unit = words[index]; *unit; unit++)
            printf("%04x", (unsigned)*unit);
        printf("\n");
    }
    return 0;
}
